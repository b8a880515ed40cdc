// SPDX-License-Identifier: Apache-2.0
// How the processes of a group reach each other: one library for each way, opened when it is asked for, so that a
// machine that lacks MPI or gloo still computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transom/device_plugin.h"

namespace transom::cpu {

// What ranks tell each other before they are connected: each brings a part for each, by rank, and gets what the others
// brought for it. Throws std::runtime_error where one does not come.
using Bytes = std::vector<char>;
using Exchange = std::function<std::vector<Bytes>(const std::vector<Bytes>& parts)>;

// From or to another rank.
struct Message {
  std::byte* data;
  size_t bytes;
  uint32_t peer;
  bool sends;
};

// All functions but abort are called from one thread. They throw std::runtime_error where a rank is lost or aborted.
class Transport {
 public:
  virtual ~Transport() = default;
  // Whether messages go to every rank; else to some only, and what is made of messages is not to be had.
  virtual bool reaches_all() const = 0;
  // In place. Of f32, f64, i32 and i64; the same bits on every rank.
  virtual void all_reduce(void* data, size_t count, transom_dtype dtype, transom_reduction reduction) = 0;
  // Rank r's bytes come to r * bytes of `to`; `from` may be our part of it.
  virtual void all_gather(const void* from, void* to, size_t bytes) = 0;
  virtual void broadcast(void* data, size_t bytes, uint32_t root) = 0;
  // All of them at the same time; those from one rank to another arrive in the order of the calls.
  virtual void exchange(std::span<const Message> messages) = 0;
  // Ends the waiting of the others; from any thread.
  virtual void abort() = 0;
};

// What the host says of a group when it asks for an id.
struct GroupOptions {
  std::string address;   // of rank 0's server; empty: MASTER_ADDR, or this machine alone
  uint32_t timeout = 0;  // seconds for which ranks wait for each other; 0: half an hour
};

// What the library of a transport offers; it exports `transom_transport`, a function that gives one.
struct TransportLibrary {
  // What the ranks meet by; after the name of the transport that the id begins with.
  void (*make_id)(const GroupOptions& options, unsigned char* id, size_t bytes);
  // `exchange` is called by all ranks alike, and not kept.
  Transport* (*join)(const unsigned char* id, size_t bytes, uint32_t rank, uint32_t ranks, const Exchange& exchange);
  // Whether it can reach the others because of how this process was launched.
  bool (*launched)();
};

// The name that an id of a communicator begins with.
constexpr size_t kNameBytes = 16;

// Opens the library of a transport; throws Failure(TRANSOM_UNAVAILABLE).
const TransportLibrary& open_transport(const std::string& name);
// The name that was asked for, or where it is empty the one that suits how the process was launched. Throws
// Failure(TRANSOM_INVALID_ARGUMENT) for names of other devices' transports.
std::string choose_transport(const std::string& asked);

}  // namespace transom::cpu
