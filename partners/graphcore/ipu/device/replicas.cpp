// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/replicas.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "transom/plugin/error.h"

#ifdef TRANSOM_IPU_EMULATED
#include "simulator/replicas.h"
#endif

namespace transom::ipu {

using backend::fail;

#ifdef TRANSOM_IPU_EMULATED

namespace {

constexpr double kSecondsToWait = 1800;  // where the host says nothing

struct Id {
  emulator_common::Meeting meeting;
  double seconds;
};
static_assert(sizeof(Id) <= 256);

}  // namespace

void make_communicator_id(unsigned char id[256]) {
  const auto* text = reinterpret_cast<const char*>(id);
  const auto next = [&, end = text + 256]() {
    const std::string_view word(text, strnlen(text, static_cast<size_t>(end - text)));
    text = std::min(text + word.size() + 1, end);
    return word;
  };
  if (const std::string_view name = next(); !name.empty() && name != "gcl")
    fail(TRANSOM_INVALID_ARGUMENT, "ddp_backend: expected gcl for this device, found '{}'", name);
  next();  // the address: that of our own interface is part of the meeting
  const std::string_view asked = next();
  const long seconds = asked.empty() ? 0 : std::strtol(std::string(asked).c_str(), nullptr, 10);
  try {
    Id mine{{}, seconds > 0 ? static_cast<double>(seconds) : kSecondsToWait};
    mine.meeting = ipu_emulator::open_meeting(mine.seconds);
    std::memset(id, 0, 256);
    std::memcpy(id, &mine, sizeof mine);
  } catch (const poplar::poplar_error& error) {
    fail(TRANSOM_INTERNAL, "{}", error.what());
  }
}

ReplicaGroup::ReplicaGroup(const unsigned char id[256], uint32_t rank, uint32_t ranks) {
  Id theirs;
  std::memcpy(static_cast<void*>(&theirs), id, sizeof theirs);
  try {
    replicas_ = std::make_shared<ipu_emulator::Replicas>(theirs.meeting, rank, ranks, theirs.seconds);
  } catch (const poplar::poplar_error& error) {
    fail(TRANSOM_DEVICE_LOST, "{}", error.what());
  }
}

void ReplicaGroup::join(poplar::Engine& engine) const { ipu_emulator::join(engine, replicas_); }
void ReplicaGroup::abort() { replicas_->abort(); }

#else

void make_communicator_id(unsigned char*) {
  fail(TRANSOM_UNSUPPORTED,
       "replicas of several processes need the launcher of the SDK, which this device does not drive; train with one "
       "process");
}

ReplicaGroup::ReplicaGroup(const unsigned char*, uint32_t, uint32_t) { make_communicator_id(nullptr); }
void ReplicaGroup::join(poplar::Engine&) const {}
void ReplicaGroup::abort() {}

#endif

}  // namespace transom::ipu
