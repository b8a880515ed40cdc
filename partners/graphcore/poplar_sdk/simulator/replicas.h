// SPDX-License-Identifier: Apache-2.0
// The replicas of a graph: each is an engine of a process or a thread of its own. An engine that joined them runs the
// collectives of its programs with the others.
#pragma once

#include "poplar/Engine.hpp"
#include "ranks/group.h"
#include "simulator/model.h"

namespace ipu_emulator {

class Replicas {
 public:
  // Meets the others; no wait takes longer than `seconds`. Throws poplar::unrecoverable_runtime_error, as all do where
  // another one is lost, does not come, or calls something else.
  Replicas(const emulator_common::Meeting& meeting, unsigned replica, unsigned count, double seconds);

  unsigned count() const { return static_cast<unsigned>(group_.size()); }
  // Each element is combined in the order of the replicas.
  void all_reduce(void* data, uint64_t count, poplar::Type type, const emulator_common::Combine& combine);
  void reduce_scatter(void* from, void* to, uint64_t count, poplar::Type type, const emulator_common::Combine& combine);
  void all_gather(void* from, void* to, uint64_t bytes);
  // Ends all waiting; nothing works afterwards. From any thread.
  void abort() { group_.shut(); }

 private:
  emulator_common::Group group_;
};

// The interface that others reach this process by: that of the variable TRANSOM_EMULATED_IPU_SOCKET, else the loopback.
emulator_common::Meeting open_meeting(double seconds);

// From its next load on.
void join(poplar::Engine& engine, std::shared_ptr<Replicas> replicas);

}  // namespace ipu_emulator
