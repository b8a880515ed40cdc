// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include "configuration.h"
#include "recipe.h"

namespace synapse_emulator {

Process& process() {
  static Process& result = *new Process;  // never destroyed: workers may outlive main
  return result;
}

void require_working_device() {
  if (process().lost) throw Failure{synDeviceReset, "the device was reset; release it and acquire it again"};
}

void require_device(uint32_t device) {
  rule(process().acquired && device == 0, synInvalidArgument, "device-id", "device ", device, " is not acquired");
  require_working_device();
}

uint64_t submit(const std::shared_ptr<Stream>& stream, const std::vector<Range>& ranges, const char* what,
                std::function<void()> work, std::vector<std::shared_ptr<Pages>> keep) {
  Process& all = process();
  const std::lock_guard lock(all.mutex);  // the number is known only after the submission
  if (configuration().check_races) {
    const std::string race = all.races.access(stream->id, stream->submitted() + 1, ranges, what);
    rule(race.empty(), synResourceBadUsage, "stream-order", race);
  }
  stream->used = true;
  return stream->submit(std::move(work), std::move(keep));
}

int wait_for_stream(Stream& stream) {
  const uint64_t number = stream.submitted();
  const int status = stream.wait(number);
  process().races.host_ordered(process().races.seen(stream.id, number));
  if (process().lost) throw Failure{synDeviceReset, "the device was reset"};
  if (status != synSuccess) throw Failure{status, stream.error()};
  return synSuccess;
}

int wait_for_all_streams() {
  std::string text;
  int status = synSuccess;
  for (const std::shared_ptr<Stream>& stream : process().streams.all()) {
    try {
      wait_for_stream(*stream);
    } catch (const Failure& failure) {
      if (status == synSuccess) {
        status = failure.status;
        text = failure.text;
      }
    }
  }
  if (status != synSuccess) throw Failure{status, text};
  return synSuccess;
}

}  // namespace synapse_emulator
