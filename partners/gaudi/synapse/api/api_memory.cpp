// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for memory and copies.
#include <algorithm>
#include <cstring>

#include "configuration.h"
#include "process.h"

using namespace synapse_emulator;

namespace {

void require_no_flags(uint32_t flags) { rule(flags == 0, synInvalidArgument, "flags", "flags are 0, found ", flags); }

void require_not_in_use(uint64_t begin, uint64_t bytes, int status) {
  if (process().lost) return;  // nothing runs any more
  const std::string user = process().races.in_use(begin, begin + bytes);
  rule(user.empty(), status, "in-use", "[", begin, ", +", bytes, ") may still be used by the ", user);
}

// One copy, checked; the work is not enqueued.
struct Transfer {
  Place from, to;
  uint64_t bytes;
};

Transfer checked_transfer(uint64_t source, uint64_t bytes, uint64_t target, synDmaDir direction) {
  rule(direction >= HOST_TO_DRAM && direction <= DRAM_TO_DRAM, synInvalidArgument, "dma-direction", "direction ",
       direction);
  rule(bytes > 0, synInvalidArgument, "dma-size", "a copy of nothing");
  const Process& all = process();
  Transfer result{{}, {}, bytes};
  result.from = direction == HOST_TO_DRAM ? all.host.place(source, bytes)
                                          : all.memory.place(source, bytes, synInvalidArgument, "source of a copy");
  result.to = direction == DRAM_TO_HOST ? all.host.place(target, bytes)
                                        : all.memory.place(target, bytes, synInvalidArgument, "target of a copy");
  return result;
}

int copy(const std::shared_ptr<Stream>& stream, const uint64_t* sources, const uint64_t* sizes, const uint64_t* targets,
         synDmaDir direction, uint64_t count) {
  require_working_device();
  rule(count > 0 && sources && sizes && targets, synInvalidArgument, "arguments", "a copy without list");
  std::vector<Transfer> transfers;
  std::vector<Range> ranges;
  std::vector<std::shared_ptr<Pages>> keep;
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    transfers.push_back(checked_transfer(sources[i], sizes[i], targets[i], direction));
    ranges.push_back({sources[i], sources[i] + sizes[i], false});
    ranges.push_back({targets[i], targets[i] + sizes[i], true});
    keep.push_back(transfers.back().from.pages);
    keep.push_back(transfers.back().to.pages);
    total += sizes[i];
  }
  const char* const names[] = {"copy to the device", "copy to the host", "copy on the device"};
  submit(
      stream, ranges, names[direction],
      [transfers, direction] {
        const bool values = configuration().values;
        for (const Transfer& transfer : transfers)
          if (values) std::memmove(transfer.to.data, transfer.from.data, transfer.bytes);
          else if (direction == DRAM_TO_HOST) std::memset(transfer.to.data, 0, transfer.bytes);
      },
      std::move(keep));
  const Generation& generation = configuration().generation;
  const double bandwidth = direction == DRAM_TO_DRAM ? generation.memory_bandwidth / 2 : generation.host_bandwidth;
  process().clock.work(*stream, Engine::kDma, direction, static_cast<double>(total) / bandwidth);
  process().clock.count(direction == HOST_TO_DRAM   ? "bytes_to_device"
                        : direction == DRAM_TO_HOST ? "bytes_to_host"
                                                    : "bytes_on_device",
                        total);
  return synSuccess;
}

template <typename T>
int fill(uint64_t address, T value, size_t count, const synStreamHandle handle) {
  require_working_device();
  const std::shared_ptr<Stream> stream = process().streams.get(handle);
  rule(count > 0, synInvalidArgument, "dma-size", "a fill of nothing");
  rule(address % sizeof(T) == 0, synInvalidArgument, "dma-alignment", "address ", address, " of elements of ",
       sizeof(T), " bytes");
  const uint64_t bytes = count * sizeof(T);
  const Place place = process().memory.place(address, bytes, synInvalidArgument, "target of a fill");
  submit(stream, {{address, address + bytes, true}}, "fill",
         [place, value, count] {
           if (configuration().values) std::fill_n(reinterpret_cast<T*>(place.data), count, value);
         },
         {place.pages});
  process().clock.work(*stream, Engine::kDma, DRAM_TO_DRAM,
                       static_cast<double>(bytes) / configuration().generation.memory_bandwidth);
  return synSuccess;
}

}  // namespace

synStatus synDeviceMalloc(const synDeviceId device, const uint64_t size, uint64_t hint, const uint32_t flags,
                          uint64_t* address) {
  return Call("synDeviceMalloc", "device", device, "size", size, "hint", hint, "flags", flags).run([&] {
    require_device(device);
    require_no_flags(flags);
    rule(address != nullptr, synInvalidArgument, "arguments", "no place for the address");
    rule(size > 0, synInvalidArgument, "arguments", "an allocation of 0 bytes");
    *address = process().memory.allocate(size);
    return synSuccess;
  });
}

synStatus synDeviceFree(const synDeviceId device, const uint64_t address, const uint32_t flags) {
  return Call("synDeviceFree", "device", device, "address", address, "flags", flags).run([&] {
    rule(process().acquired && device == 0, synInvalidArgument, "device-id", "device ", device, " is not acquired");
    require_no_flags(flags);
    require_not_in_use(address, 1, synDeviceFreeFailed);
    process().memory.free(address);
    return synSuccess;
  });
}

synStatus synHostMalloc(const synDeviceId device, const uint64_t size, const uint32_t flags, void** buffer) {
  return Call("synHostMalloc", "device", device, "size", size, "flags", flags).run([&] {
    require_device(device);
    require_no_flags(flags);
    rule(buffer != nullptr && size > 0, synInvalidArgument, "arguments", "no place, or 0 bytes");
    *buffer = process().host.allocate(size);
    return synSuccess;
  });
}

synStatus synHostFree(const synDeviceId device, const void* buffer, const uint32_t flags) {
  return Call("synHostFree", "device", device, "buffer", buffer, "flags", flags).run([&] {
    rule(process().acquired && device == 0, synInvalidArgument, "device-id", "device ", device, " is not acquired");
    require_no_flags(flags);
    require_not_in_use(reinterpret_cast<uint64_t>(buffer), 1, synInvalidArgument);
    process().host.free(buffer);
    return synSuccess;
  });
}

synStatus synHostMap(const synDeviceId device, const uint64_t size, const void* buffer) {
  return Call("synHostMap", "device", device, "size", size, "buffer", buffer).run([&] {
    require_device(device);
    rule(buffer != nullptr && size > 0, synInvalidArgument, "arguments", "no buffer, or 0 bytes");
    process().host.map(buffer, size);
    return synSuccess;
  });
}

synStatus synHostUnmap(const synDeviceId device, const void* buffer) {
  return Call("synHostUnmap", "device", device, "buffer", buffer).run([&] {
    rule(process().acquired && device == 0, synInvalidArgument, "device-id", "device ", device, " is not acquired");
    const std::string user =
        process().races.in_use(reinterpret_cast<uint64_t>(buffer), reinterpret_cast<uint64_t>(buffer) + 1);
    if (!user.empty()) {  // the caller's pages may go away now
      try {
        wait_for_all_streams();
      } catch (const Failure&) {
      }
    }
    process().host.unmap(buffer);
    rule(user.empty(), synSuccess, "in-use", "the buffer ", buffer, " may still be used by the ", user);
    return synSuccess;
  });
}

synStatus synMemCopyAsync(const synStreamHandle stream, const uint64_t source, const uint64_t size,
                          const uint64_t target, const synDmaDir direction) {
  return Call("synMemCopyAsync", "stream", stream, "source", source, "size", size, "target", target, "direction",
              direction)
      .run([&] { return copy(process().streams.get(stream), &source, &size, &target, direction, 1); });
}

synStatus synMemCopyAsyncMultiple(const synStreamHandle stream, const uint64_t* sources, const uint64_t* sizes,
                                  const uint64_t* targets, const synDmaDir direction, const uint64_t count) {
  return Call("synMemCopyAsyncMultiple", "stream", stream, "direction", direction, "count", count).run([&] {
    return copy(process().streams.get(stream), sources, sizes, targets, direction, count);
  });
}

synStatus synMemsetD8Async(uint64_t address, const unsigned char value, const size_t count,
                           const synStreamHandle stream) {
  return Call("synMemsetD8Async", "address", address, "value", int{value}, "count", count, "stream", stream).run([&] {
    return fill<uint8_t>(address, value, count, stream);
  });
}

synStatus synMemsetD16Async(uint64_t address, const uint16_t value, const size_t count, const synStreamHandle stream) {
  return Call("synMemsetD16Async", "address", address, "value", value, "count", count, "stream", stream).run([&] {
    return fill<uint16_t>(address, value, count, stream);
  });
}

synStatus synMemsetD32Async(uint64_t address, const uint32_t value, const size_t count, const synStreamHandle stream) {
  return Call("synMemsetD32Async", "address", address, "value", value, "count", count, "stream", stream).run([&] {
    return fill<uint32_t>(address, value, count, stream);
  });
}
