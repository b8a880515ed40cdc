// SPDX-License-Identifier: Apache-2.0
// What the library holds for its process: the one card, its memory, and all that has a handle.
#pragma once

#include <atomic>
#include <mutex>

#include "clock.h"
#include "handles.h"
#include "memory.h"
#include "races.h"
#include "stream.h"

namespace synapse_emulator {

struct Graph;
struct Tensor;
struct Section;
struct Recipe;
struct ErrorText;
class Communicator;

struct Process {
  std::mutex mutex;  // guards what is not guarded by itself
  std::atomic<bool> initialized{false};
  std::atomic<bool> acquired{false};
  std::atomic<bool> lost{false};  // every call on the device answers synDeviceReset until it is released
  uint32_t module = 0;
  bool by_module = false;  // acquired by its module id
  int lock_file = -1;
  uint64_t streams_made = 0, affinities_given = 0;

  DeviceMemory memory;
  HostMappings host;
  Races races;
  Clock clock;
  Handles<Stream> streams{0x51, "stream"};
  Handles<Event> events{0x52, "event"};
  Handles<Graph> graphs{0x53, "graph"};
  Handles<Tensor> tensors{0x54, "tensor"};
  Handles<Section> sections{0x55, "section"};
  Handles<Recipe> recipes{0x56, "recipe"};
  Handles<ErrorText> errors{0x57, "error"};
  Handles<Communicator> communicators{0x58, "communicator"};
};

Process& process();

// Throws unless `device` is the acquired one and it works.
void require_device(uint32_t device);
// Throws Failure(synDeviceReset) if the device was lost.
void require_working_device();
// Enqueues work with the ranges that it uses; finds races. Returns its number.
uint64_t submit(const std::shared_ptr<Stream>& stream, const std::vector<Range>& ranges, const char* what,
                std::function<void()> work, std::vector<std::shared_ptr<Pages>> keep);
// Waits until all of the stream has run, and notes that the host knows. The stream's status.
int wait_for_stream(Stream& stream);
int wait_for_all_streams();

}  // namespace synapse_emulator
