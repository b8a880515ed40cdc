// SPDX-License-Identifier: Apache-2.0
// Collectives between replicas: each is a small replicated program of gcl, which takes its data from a buffer and
// leaves its result in one.
#pragma once

#include <memory>
#include <poplar/Engine.hpp>
#include <vector>

#include "ipu/device/device.h"
#include "ipu/device/replicas.h"

namespace transom::ipu {

void add_collectives(transom_plugin& table);

enum class CollectiveKind { kReduce, kReduceScatter, kGather };

}  // namespace transom::ipu

struct transom_communicator : Handle {
 public:
  // Returns when all ranks have come.
  transom_communicator(transom_device* device, const unsigned char id[256], uint32_t rank, uint32_t ranks);

  // Runs one program on `in`, for `out`. A program of each kind, type, operation and size is compiled once. Throws
  // Failure(TRANSOM_DEVICE_LOST) where another rank is lost, and at every call from then on.
  struct Call {
    transom::ipu::CollectiveKind kind;
    poplar::Type type;
    transom_reduction reduction;
    size_t count;  // elements of `in`
    bool operator==(const Call&) const = default;
  };
  void run(const Call& call, const void* in, void* out);
  void abort() { group_.abort(); }

  transom_device* const device;
  const uint32_t rank, ranks;

 private:
  poplar::Engine& program(const Call& call);

  transom::ipu::ReplicaGroup group_;
  std::vector<std::pair<Call, std::unique_ptr<poplar::Engine>>> programs_;  // guarded by the device's `running`
  std::atomic<bool> lost_{false};
};
