// SPDX-License-Identifier: Apache-2.0
#include "simulator/replicas.h"

#include "poplar/exceptions.hpp"
#include "simulator/compile.h"

namespace ipu_emulator {
namespace {

constexpr const char* kInterface = "TRANSOM_EMULATED_IPU_SOCKET";

template <typename Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const emulator_common::GroupError& error) {
    throw poplar::unrecoverable_runtime_error("replicas: " + error.text);
  }
}

char* bytes_of(void* data) { return static_cast<char*>(data); }

}  // namespace

emulator_common::Meeting open_meeting(double seconds) {
  return translated([&] { return emulator_common::open_meeting(emulator_common::own_address(kInterface), seconds); });
}

Replicas::Replicas(const emulator_common::Meeting& meeting, unsigned replica, unsigned count, double seconds)
    : group_(translated([&] {
        return emulator_common::Group(meeting, static_cast<int>(replica), static_cast<int>(count),
                                      emulator_common::own_address(kInterface), seconds);
      })) {}

void Replicas::all_reduce(void* data, uint64_t count, poplar::Type type, const emulator_common::Combine& combine) {
  translated([&] { group_.all_reduce(bytes_of(data), bytes_of(data), count, size_of(type), combine); });
}

void Replicas::reduce_scatter(void* from, void* to, uint64_t count, poplar::Type type,
                              const emulator_common::Combine& combine) {
  translated([&] { group_.reduce_scatter(bytes_of(from), bytes_of(to), count, size_of(type), combine); });
}

void Replicas::all_gather(void* from, void* to, uint64_t bytes) {
  translated([&] { group_.all_gather(bytes_of(from), bytes_of(to), bytes); });
}

void join(poplar::Engine& engine, std::shared_ptr<Replicas> replicas) {
  engine.running().replicas = std::move(replicas);
}

}  // namespace ipu_emulator
