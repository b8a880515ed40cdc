// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/device/communicator.h"
#include "runtime/distributed/store.h"

namespace transom {

// Makes the communicators of a device, for all ranks or some: their ids, and what transports tell each other, go over
// the store. For one thread at a time; the device must outlive it.
class GroupMaker {
 public:
  // `rank`: of this process in the store. `options` are those of rank 0 of each group.
  GroupMaker(Device& device, std::shared_ptr<StoreClient> store, int64_t rank, CommunicatorOptions options,
             std::shared_ptr<FlightRecorder> recorder = nullptr)
      : device_(device),
        store_(std::move(store)),
        rank_(rank),
        options_(std::move(options)),
        recorder_(std::move(recorder)) {}

  // The communicator of these ranks, rising, of which this process is one; all of them call it together. Throws an
  // Error of kind kDevice where one is lost or does not come.
  std::unique_ptr<Communicator> make(const std::vector<int64_t>& ranks);

 private:
  Device& device_;
  std::shared_ptr<StoreClient> store_;
  int64_t rank_;
  CommunicatorOptions options_;
  std::shared_ptr<FlightRecorder> recorder_;       // of the communicators; may be null
  std::map<std::vector<int64_t>, uint64_t> made_;  // how often
};

}  // namespace transom
