// SPDX-License-Identifier: Apache-2.0
// The replicas of a program: one process (or thread) has one of them. Between emulated machines they meet over sockets;
// with an SDK that is the work of its own launcher, which this device does not drive: it refuses.
#pragma once

#include <memory>
#include <poplar/Engine.hpp>

#include "transom/device_plugin.h"

namespace ipu_emulator {
class Replicas;
}

namespace transom::ipu {

// What others join by, from what the host asks for, see transom_plugin.communicator_id. Throws Failure.
void make_communicator_id(unsigned char id[256]);

class ReplicaGroup {
 public:
  // Meets the other ranks. Throws Failure(TRANSOM_DEVICE_LOST) where they do not come.
  ReplicaGroup(const unsigned char id[256], uint32_t rank, uint32_t ranks);
  // The engine's collectives are with these from its next load on.
  void join(poplar::Engine& engine) const;
  void abort();  // from any thread

 private:
  std::shared_ptr<ipu_emulator::Replicas> replicas_;
};

}  // namespace transom::ipu
