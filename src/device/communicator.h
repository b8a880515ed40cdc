// SPDX-License-Identifier: Apache-2.0
// A device's place in a group of devices, one a process, and the collectives between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"
#include "transom/dtype.h"

namespace transom {

using CommunicatorId = std::array<unsigned char, 256>;

struct CommunicatorOptions {
  std::string transport;  // how to reach the others ("mpi", "gloo", "hccl"); empty: what suits the device best
  std::string address;    // of the server of the rank that makes the id; empty: all are on one server
  int64_t timeout = 0;    // seconds for which ranks wait for each other; 0: as long as the device likes
};

// What the other processes join by; made by one of them. Throws where the device has no collectives or not this way.
CommunicatorId make_communicator_id(const Device& device, const CommunicatorOptions& options);

// Not thread-safe, but for abort. The device must outlive it.
class Communicator {
 public:
  // Returns when all ranks have come.
  Communicator(Device& device, const CommunicatorId& id, uint32_t rank, uint32_t ranks);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }

  // Starts to sum a whole buffer over the ranks, in place, once the device's stream has passed what was issued so far;
  // what is issued to it afterwards runs at the same time.
  void start_all_reduce(const Buffer& buffer, DType dtype);
  // Starts to give rank 0's contents to all.
  void start_broadcast(const Buffer& buffer, DType dtype);
  // The device's stream goes on when all that was started is done.
  void wait();
  // Ends all waiting for other ranks, on this and every other thread; nothing works afterwards.
  void abort();

 private:
  void follow_device();  // the stream of collectives comes after the device's, as it is now
  Device& device_;
  uint32_t rank_, ranks_;
  transom_communicator* handle_ = nullptr;
  transom_stream* stream_ = nullptr;
  transom_event* event_ = nullptr;
};

}  // namespace transom
