// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/lanes.h"

#include <utility>

namespace transom::hpu {

Lanes::Lanes(const SynapseLibrary& library, synDeviceId device) : library_(library) {
  try {
    uint64_t affinity = 0;
    const bool shared = library.synDeviceGetNextStreamAffinity(device, &affinity) == synSuccess;
    for (size_t i = 0; i < kLanes; ++i) {
      library.expect(library.synStreamCreateGeneric(&streams_[i], device, 0), "creating a stream");
      if (shared && i != index(Lane::kNetwork))
        library.expect(library.synStreamSetAffinity(device, streams_[i], affinity), "setting the affinity of a stream");
      for (uint64_t e = 0; e < kEvents; ++e) {
        synEventHandle event = nullptr;
        library.expect(library.synEventCreate(&event, device, 0), "creating an event");
        events_[i].push_back(event);
      }
    }
  } catch (...) {
    release();
    throw;
  }
}

Lanes::~Lanes() { release(); }

void Lanes::release() {
  for (size_t i = 0; i < kLanes; ++i) {
    if (streams_[i]) library_.synStreamSynchronize(streams_[i]);
    for (synEventHandle event : events_[i]) library_.synEventDestroy(event);
    events_[i].clear();
  }
  for (synStreamHandle& stream : streams_)
    if (stream) library_.synStreamDestroy(std::exchange(stream, nullptr));
}

synStreamHandle Lanes::begin(Lane lane, const Tickets& after) {
  const size_t mine = index(lane);
  for (size_t other = 0; other < kLanes; ++other) {
    if (other == mine || after[other] <= completed_[other] || after[other] <= waited_[mine][other]) continue;
    library_.expect(library_.synStreamWaitEvent(streams_[mine], events_[other][after[other] % kEvents], 0),
                    "waiting for an event");
    waited_[mine][other] = after[other];
  }
  return streams_[mine];
}

uint64_t Lanes::end(Lane lane) {
  const size_t mine = index(lane);
  const uint64_t ticket = issued_[mine] + 1;
  library_.expect(library_.synEventRecord(events_[mine][ticket % kEvents], streams_[mine]), "recording an event");
  return issued_[mine] = ticket;
}

void Lanes::wait(const Tickets& tickets) {
  for (size_t i = 0; i < kLanes; ++i) {
    if (tickets[i] <= completed_[i]) continue;
    library_.expect(library_.synStreamSynchronize(streams_[i]), "work on the device");
    completed_[i] = issued_[i];
  }
}

void Lanes::settle() noexcept {
  for (size_t i = 0; i < kLanes; ++i)
    if (library_.synStreamSynchronize(streams_[i]) != synSuccess) library_.synStreamSynchronize(streams_[i]);
  completed_ = issued_;
}

bool Lanes::query(const Tickets& tickets) {
  for (size_t i = 0; i < kLanes; ++i) {
    if (tickets[i] <= completed_[i]) continue;
    const synStatus status = library_.synEventQuery(events_[i][tickets[i] % kEvents]);
    if (status == synBusy) return false;
    library_.expect(status, "work on the device");
    completed_[i] = std::max(completed_[i], tickets[i]);
  }
  return true;
}

}  // namespace transom::hpu
