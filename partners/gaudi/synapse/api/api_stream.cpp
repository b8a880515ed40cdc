// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for streams and events.
#include <cmath>

#include "configuration.h"
#include "process.h"

using namespace synapse_emulator;

namespace {

constexpr uint32_t kMostStreams = 32;
constexpr uint32_t kCollectTime = 1;

int wait_for_marker(const Marker& marker, bool query) {
  require_working_device();
  if (!marker.stream) return synSuccess;  // never recorded: nothing to wait for
  const int status = query ? marker.stream->query(marker.number) : marker.stream->wait(marker.number);
  if (status == synBusy) return synBusy;
  process().races.host_ordered(marker.seen);
  if (status != synSuccess) throw Failure{status, marker.stream->error()};
  return synSuccess;
}

}  // namespace

synStatus synStreamCreateGeneric(synStreamHandle* stream, const synDeviceId device, const uint32_t flags) {
  return Call("synStreamCreateGeneric", "device", device, "flags", flags).run([&] {
    require_device(device);
    rule(stream != nullptr, synInvalidArgument, "arguments", "no place for the handle");
    rule(flags == 0, synInvalidArgument, "flags", "flags are 0, found ", flags);
    Process& all = process();
    if (all.streams.size() >= kMostStreams) throw Failure{synAllResourcesTaken, "the device has 32 streams"};
    const std::lock_guard lock(all.mutex);
    *stream = all.streams.add<synStreamHandle>(std::make_shared<Stream>(++all.streams_made, configuration().deferred));
    return synSuccess;
  });
}

synStatus synStreamDestroy(const synStreamHandle handle) {
  return Call("synStreamDestroy", "stream", handle).run([&] {
    const std::shared_ptr<Stream> stream = process().streams.take(handle);
    const bool idle = stream->query(stream->submitted()) != synBusy;
    stream->wait_all();
    process().races.host_ordered(process().races.seen(stream->id, stream->submitted()));
    process().races.forget(stream->id);
    (void)idle;
    return synSuccess;
  });
}

synStatus synStreamSynchronize(const synStreamHandle stream) {
  return Call("synStreamSynchronize", "stream", stream).run([&] {
    const std::shared_ptr<Stream> found = process().streams.get(stream);
    require_working_device();
    return wait_for_stream(*found);
  });
}

synStatus synDeviceSynchronize(const synDeviceId device) {
  return Call("synDeviceSynchronize", "device", device).run([&] {
    require_device(device);
    return wait_for_all_streams();
  });
}

synStatus synStreamQuery(const synStreamHandle stream) {
  return Call("synStreamQuery", "stream", stream).run([&] {
    const std::shared_ptr<Stream> found = process().streams.get(stream);
    require_working_device();
    const uint64_t number = found->submitted();
    const int status = found->query(number);
    if (status == synBusy) return int{synBusy};
    process().races.host_ordered(process().races.seen(found->id, number));
    if (status != synSuccess) throw Failure{status, found->error()};
    return int{synSuccess};
  });
}

synStatus synStreamWaitEvent(const synStreamHandle stream, synEventHandle event, const uint32_t flags) {
  return Call("synStreamWaitEvent", "stream", stream, "event", event, "flags", flags).run([&] {
    const std::shared_ptr<Stream> waiting = process().streams.get(stream);
    const std::shared_ptr<Event> awaited = process().events.get(event, synInvalidEventHandle);
    require_working_device();
    rule(flags == 0, synInvalidArgument, "flags", "flags are 0, found ", flags);
    const std::lock_guard lock(process().mutex);
    const Marker marker = awaited->marker;
    if (!marker.stream || marker.stream == waiting) return synSuccess;
    process().races.ordered(waiting->id, marker.seen);
    process().clock.wait(*waiting, marker.seconds);
    waiting->submit(
        [marker] {
          const int status = marker.stream->wait(marker.number);
          if (status != synSuccess) throw Failure{status, marker.stream->error()};
        },
        {});
    return synSuccess;
  });
}

synStatus synDeviceGetNextStreamAffinity(const synDeviceId device, uint64_t* mask) {
  return Call("synDeviceGetNextStreamAffinity", "device", device).run([&] {
    require_device(device);
    rule(mask != nullptr, synInvalidArgument, "arguments", "no place for the mask");
    const std::lock_guard lock(process().mutex);
    *mask = uint64_t{1} << (process().affinities_given++ % 4);
    return synSuccess;
  });
}

synStatus synStreamSetAffinity(const synDeviceId device, const synStreamHandle stream, uint64_t mask) {
  return Call("synStreamSetAffinity", "device", device, "stream", stream, "mask", mask).run([&] {
    require_device(device);
    const std::shared_ptr<Stream> found = process().streams.get(stream);
    rule(!found->used, synResourceBadUsage, "affinity", "the affinity is set before the first use of the stream");
    rule(mask != 0, synInvalidArgument, "affinity", "an empty mask");
    found->affinity = mask;
    return synSuccess;
  });
}

synStatus synEventCreate(synEventHandle* event, const synDeviceId device, const uint32_t flags) {
  return Call("synEventCreate", "device", device, "flags", flags).run([&] {
    require_device(device);
    rule(event != nullptr, synInvalidArgument, "arguments", "no place for the handle");
    rule((flags & ~kCollectTime) == 0, synInvalidArgument, "flags", "flags ", flags);
    auto made = std::make_shared<Event>();
    made->collects_time = (flags & kCollectTime) != 0;
    *event = process().events.add<synEventHandle>(made);
    return synSuccess;
  });
}

synStatus synEventDestroy(synEventHandle event) {
  return Call("synEventDestroy", "event", event).run([&] {
    process().events.take(event, synInvalidEventHandle);
    return synSuccess;
  });
}

synStatus synEventRecord(synEventHandle event, const synStreamHandle stream) {
  return Call("synEventRecord", "event", event, "stream", stream).run([&] {
    const std::shared_ptr<Event> recorded = process().events.get(event, synInvalidEventHandle);
    const std::shared_ptr<Stream> found = process().streams.get(stream);
    require_working_device();
    const std::lock_guard lock(process().mutex);
    const uint64_t number = found->submitted();
    recorded->marker = {found, number, found->ready_seconds, process().races.seen(found->id, number)};
    return synSuccess;
  });
}

synStatus synEventQuery(const synEventHandle event) {
  return Call("synEventQuery", "event", event).run([&] {
    return wait_for_marker(process().events.get(event, synInvalidEventHandle)->marker, true);
  });
}

synStatus synEventSynchronize(const synEventHandle event) {
  return Call("synEventSynchronize", "event", event).run([&] {
    return wait_for_marker(process().events.get(event, synInvalidEventHandle)->marker, false);
  });
}

synStatus synEventElapsedTime(uint64_t* nanoseconds, const synEventHandle start, const synEventHandle end) {
  return Call("synEventElapsedTime", "start", start, "end", end).run([&] {
    const std::shared_ptr<Event> first = process().events.get(start, synInvalidEventHandle);
    const std::shared_ptr<Event> last = end ? process().events.get(end, synInvalidEventHandle) : nullptr;
    rule(nanoseconds != nullptr, synInvalidArgument, "arguments", "no place for the time");
    for (const Event* event : {first.get(), last.get()}) {
      if (!event) continue;
      rule(event->collects_time, synFailedToCollectTime, "event-time", "the event was made without flag 1");
      rule(event->marker.stream != nullptr, synFailedToCollectTime, "event-time", "the event was never recorded");
      if (event->marker.stream->query(event->marker.number) == synBusy) return int{synBusy};
    }
    const double seconds = last ? last->marker.seconds - first->marker.seconds : first->marker.seconds;
    rule(seconds >= 0, synFailedToCollectTime, "event-time", "the end lies before the start");
    *nanoseconds = static_cast<uint64_t>(std::llround(seconds * 1e9));
    return int{synSuccess};
  });
}
