// SPDX-License-Identifier: Apache-2.0
// A device's place in a group of devices, one a process, and the collectives between them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/flight_recorder.h"
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

// See device_plugin.h for what each does, and which elements go where.
enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

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

  // No other communicator of the process has it, now or later.
  uint64_t number() const { return number_; }

  // Starts a collective of whole buffers once the device's stream has passed what was issued so far; what is issued to
  // it afterwards runs at the same time. Sums may work in place. Throws where the sizes of the buffers do not fit, or
  // where the device has no such collective.
  void start(Collective kind, const Buffer& from, const Buffer& to, DType dtype);
  // Starts to give rank 0's contents to all.
  void start_broadcast(const Buffer& buffer, DType dtype);
  // Starts a message of the whole buffer to a rank of this communicator, or from one; the n-th that one sends to
  // another is the n-th received from it, in the same size and type. Throws where the device has no messages.
  void start_send(const Buffer& buffer, DType dtype, uint32_t to);
  void start_receive(const Buffer& buffer, DType dtype, uint32_t from);
  // The device's stream goes on when all that was started is done.
  void wait();
  // The event happens when all that was started so far is done.
  void record(transom_event* event);

  // The group of these ranks of this communicator, rising, among them this one. It is made when it is first asked for,
  // which all of its ranks do, in one order where they share several. Throws where they do not come, or where nothing
  // makes groups (see make_groups_by).
  Communicator& group(const std::vector<int64_t>& ranks);
  // Makes the communicator of the ranks of a group, which all of them call together.
  using MakeGroup = std::function<std::unique_ptr<Communicator>(const std::vector<int64_t>& ranks)>;
  void make_groups_by(MakeGroup make_group) { make_group_ = std::move(make_group); }
  // From now on notes its collectives there, as those of these ranks, rising, which are the ranks of the communicator.
  void record_in(std::shared_ptr<FlightRecorder> recorder, const std::vector<int64_t>& ranks);
  // Ends all waiting for other ranks, of its groups too, on this and every other thread; nothing works afterwards.
  void abort();

 private:
  void follow_device();  // the stream of collectives comes after the device's, as it is now
  // Calls `issue` and notes what it issues.
  template <typename Issue>
  void issue(std::string_view group, std::string_view operation, uint64_t bytes, DType dtype, Issue&& issue);
  std::string message_group(uint32_t from, uint32_t to) const;
  Device& device_;
  uint32_t rank_, ranks_;
  transom_communicator* handle_ = nullptr;
  transom_stream* stream_ = nullptr;
  transom_event* event_ = nullptr;
  uint64_t number_;
  MakeGroup make_group_;
  std::mutex groups_mutex_;  // for abort
  std::map<std::vector<int64_t>, std::unique_ptr<Communicator>> groups_;
  bool aborted_ = false;
  std::shared_ptr<FlightRecorder> recorder_;  // may be null
  std::vector<int64_t> recorded_ranks_;
  std::string recorded_group_;
};

}  // namespace transom
