// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for the process and the device.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "collectives/communicator.h"
#include "configuration.h"
#include "faults.h"
#include "graph.h"
#include "process.h"
#include "recipe.h"

using namespace synapse_emulator;

namespace {

constexpr const char* kVersion = "1.21.0 emulator (Transom partners/gaudi/synapse, no Gaudi)";

int copy_text(char* out, int64_t room, const std::string& text) {
  rule(out != nullptr && room > 0, synInvalidArgument, "arguments", "no place for the text");
  std::snprintf(out, static_cast<size_t>(room), "%s", text.c_str());
  return synSuccess;
}

// Takes a card of the server for this process; false if another process has it.
bool take_card(uint32_t module) {
  Process& all = process();
  const std::string& server = configuration().server;
  if (!server.empty()) {
    std::string name = "transom-synapse-" + std::to_string(getuid()) + "-";
    for (const char c : server) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    const auto path = std::filesystem::temp_directory_path() / (name + "-" + std::to_string(module) + ".lock");
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) throw Failure{synFail, "cannot open " + path.string() + ": " + std::strerror(errno)};
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      close(file);
      return false;
    }
    all.lock_file = file;
  }
  all.module = module;
  return true;
}

// `module`: the card to take; -1: the first free one.
void write_report() {
  const std::string& path = configuration().report;
  if (path.empty()) return;
  if (std::FILE* file = std::fopen(path.c_str(), "w")) {
    const std::string text = process().clock.report(process().memory.highest());
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
}

int acquire(synDeviceId* device, int64_t module) {
  Process& all = process();
  const std::lock_guard lock(all.mutex);
  rule(device != nullptr, synInvalidArgument, "arguments", "no place for the device");
  rule(!all.acquired, synDeviceAlreadyAcquired, "acquire-once", "this process has a device already");
  const uint32_t cards = configuration().devices;
  if (cards == 0) throw Failure{synNoDeviceFound, "the emulated server has no card"};
  rule(module < static_cast<int64_t>(cards), synInvalidArgument, "module-id", "module ", module, " of ", cards);
  bool taken = false;
  for (uint32_t card = module < 0 ? 0 : static_cast<uint32_t>(module); card < cards && !taken; ++card) {
    taken = take_card(card);
    if (module >= 0) break;
  }
  if (!taken) throw Failure{synDeviceAlreadyAcquired, "another process holds the card"};
  all.memory.reset(configuration().memory_bytes, configuration().generation.alignment);
  all.races.reset();
  all.lost = false;
  all.by_module = module >= 0;
  all.acquired = true;
  *device = 0;
  // Of a program that ends without the release of its device.
  static const int at_exit = std::atexit([] {
    if (process().acquired) write_report();
  });
  static_cast<void>(at_exit);
  return synSuccess;
}

std::string alive(const char* what, size_t count) {
  return count == 0 ? "" : join(" ", count, " ", what, count == 1 ? "" : "s");
}

int release() {
  Process& all = process();
  for (const std::shared_ptr<Stream>& stream : all.streams.all()) stream->wait_all();
  write_report();
  const std::string left = alive("stream", all.streams.size()) + alive("event", all.events.size()) +
                           alive("communicator", all.communicators.size()) +
                           alive("device allocation", all.memory.count()) +
                           alive("host allocation", all.host.allocated()) + alive("host mapping", all.host.mapped());
  all.communicators.clear();
  all.streams.clear();
  all.events.clear();
  all.host.clear();
  all.memory.reset(0, 128);
  all.races.reset();
  all.acquired = false;
  all.lost = false;
  if (all.lock_file >= 0) close(all.lock_file);
  all.lock_file = -1;
  rule(left.empty(), synSuccess, "release-order", "left at the release of the device:", left);
  return synSuccess;
}

uint64_t attribute(synDeviceAttribute which, bool of_device) {
  const Generation& generation = configuration().generation;
  const Process& all = process();
  switch (which) {
    case 0:
      return 0x1000000000000000;  // SRAM
    case 1:
      return DeviceMemory::kBase;
    case 2:
      return generation.sram_bytes;
    case 3:
      return configuration().memory_bytes;
    case 4:
      return of_device ? all.memory.capacity() - all.memory.used() : configuration().memory_bytes;
    case 5:
      return generation.tpc_count == 64 ? ~uint64_t{0} : (uint64_t{1} << generation.tpc_count) - 1;
    case 6:
      return 1;
    case 7:
      return static_cast<uint64_t>(generation.type);
    case 8:
      return static_cast<uint64_t>(generation.clock_hertz / 1e6);
    case 9:
      return 0;  // size of read-modify-write
    case 10:
      return 0;  // memory of the streams
    case 11:
      return generation.alignment;
    case 12:
      return 25;
    default:
      throw Violation{synInvalidArgument, "device-attribute", join("attribute ", which)};
  }
}

int attributes(uint64_t* out, const synDeviceAttribute* which, unsigned count, bool of_device) {
  rule(out && which && count > 0, synInvalidArgument, "arguments", "no attributes");
  for (unsigned i = 0; i < count; ++i) out[i] = attribute(which[i], of_device);
  return synSuccess;
}

void fill_info(synDeviceInfoV2& info) {
  info = {};
  info.sramBaseAddress = attribute(0, true);
  info.dramBaseAddress = attribute(1, true);
  info.sramSize = static_cast<uint32_t>(attribute(2, true));
  info.dramSize = attribute(3, true);
  info.tpcEnabledMask = attribute(5, true);
  info.dramEnabled = 1;
  info.fd = 0xFFFFFFFF;  // there is no device node
  info.deviceType = configuration().generation.type;
  info.deviceIndex = static_cast<uint8_t>(process().module);
  info.globalHbmBaseAddress = info.dramBaseAddress;
}

}  // namespace

synStatus synInitialize(void) {
  return Call("synInitialize").anytime().run([&] {
    if (!configuration_error().empty()) throw Failure{synInvalidArgument, configuration_error()};
    if (!fault_error().empty()) throw Failure{synInvalidArgument, fault_error()};
    rule(!process().initialized, synAlreadyInitialized, "initialize", "called twice");
    process().initialized = true;
    return synSuccess;
  });
}

synStatus synDestroy(void) {
  return Call("synDestroy").run([&] {
    Process& all = process();
    const bool held = all.acquired;
    const std::string left = alive("graph", all.graphs.size()) + alive("recipe", all.recipes.size()) +
                             alive("error handle", all.errors.size());
    if (held) release();
    all.errors.clear();
    all.recipes.clear();
    all.sections.clear();
    all.tensors.clear();
    all.graphs.clear();
    all.initialized = false;
    rule(!held, synSuccess, "release-order", "the device was not released");
    rule(left.empty(), synSuccess, "release-order", "left at the end:", left);
    return synSuccess;
  });
}

synStatus synDeviceGetCount(uint32_t* count) {
  return Call("synDeviceGetCount").run([&] {
    rule(count != nullptr, synInvalidArgument, "arguments", "no place for the count");
    *count = configuration().devices;
    return synSuccess;
  });
}

synStatus synDeviceGetCountByDeviceType(uint32_t* count, const synDeviceType type) {
  return Call("synDeviceGetCountByDeviceType", "type", type).run([&] {
    rule(count != nullptr, synInvalidArgument, "arguments", "no place for the count");
    *count = type == configuration().generation.type || type == synDeviceTypeInvalid ? configuration().devices : 0;
    return synSuccess;
  });
}

synStatus synDeviceGetModuleIDs(uint32_t* modules, uint32_t* count) {
  return Call("synDeviceGetModuleIDs").run([&] {
    rule(modules && count, synInvalidArgument, "arguments", "no place for the modules");
    const uint32_t cards = configuration().devices;
    rule(*count >= cards, synInvalidArgument, "arguments", "place for ", *count, " of ", cards, " modules");
    for (uint32_t i = 0; i < cards; ++i) modules[i] = i;
    *count = cards;
    return synSuccess;
  });
}

synStatus synDeviceAcquire(synDeviceId* device, const char* bus) {
  return Call("synDeviceAcquire", "bus", bus).run([&] {
    if (bus == nullptr || *bus == 0) return acquire(device, -1);
    unsigned module = 0;
    rule(std::sscanf(bus, "0000:%x:00.0", &module) == 1 && module > 0, synInvalidArgument, "bus", "no card at ", bus);
    return acquire(device, module - 1);
  });
}

synStatus synDeviceAcquireByModuleId(synDeviceId* device, const synModuleId module) {
  return Call("synDeviceAcquireByModuleId", "module", module).run([&] { return acquire(device, module); });
}

synStatus synDeviceAcquireByDeviceType(synDeviceId* device, const synDeviceType type) {
  return Call("synDeviceAcquireByDeviceType", "type", type).run([&] {
    if (type != synDeviceTypeInvalid && type != configuration().generation.type)
      throw Failure{synNoDeviceFound, join("the server has no card of type ", type)};
    return acquire(device, -1);
  });
}

synStatus synDeviceRelease(const synDeviceId device) {
  return Call("synDeviceRelease", "device", device).run([&] {
    rule(process().acquired && device == 0, synInvalidArgument, "device-id", "device ", device, " is not acquired");
    return release();
  });
}

synStatus synDriverGetVersion(char* text, const int room) {
  return Call("synDriverGetVersion").anytime().run([&] { return copy_text(text, room, kVersion); });
}

synStatus synDeviceGetName(char* text, const int room, const synDeviceId device) {
  return Call("synDeviceGetName", "device", device).run([&] {
    require_device(device);
    return copy_text(text, room, configuration().generation.device_name);
  });
}

synStatus synDeviceGetPCIBusId(char* text, const int room, const synDeviceId device) {
  return Call("synDeviceGetPCIBusId", "device", device).run([&] {
    require_device(device);
    char bus[32];
    std::snprintf(bus, sizeof bus, "0000:%02x:00.0", process().module + 1);
    return copy_text(text, room, bus);
  });
}

synStatus synDeviceGetInfo(const synDeviceId device, synDeviceInfo* info) {
  return Call("synDeviceGetInfo", "device", device).run([&] {
    require_device(device);
    rule(info != nullptr, synInvalidArgument, "arguments", "no place for the information");
    synDeviceInfoV2 all;
    fill_info(all);
    std::memcpy(info, &all, sizeof *info);  // the first fields are the same
    return synSuccess;
  });
}

synStatus synDeviceGetInfoV2(const synDeviceId device, synDeviceInfoV2* info) {
  return Call("synDeviceGetInfoV2", "device", device).run([&] {
    require_device(device);
    rule(info != nullptr, synInvalidArgument, "arguments", "no place for the information");
    fill_info(*info);
    return synSuccess;
  });
}

synStatus synDeviceGetMemoryInfo(const synDeviceId device, uint64_t* free, uint64_t* total) {
  return Call("synDeviceGetMemoryInfo", "device", device).run([&] {
    require_device(device);
    rule(free && total, synInvalidArgument, "arguments", "no place for the sizes");
    *total = process().memory.capacity();
    *free = *total - process().memory.used();
    return synSuccess;
  });
}

synStatus synDeviceGetAttribute(uint64_t* out, const synDeviceAttribute* which, const unsigned count,
                                const synDeviceId device) {
  return Call("synDeviceGetAttribute", "count", count, "device", device).run([&] {
    require_device(device);
    return attributes(out, which, count, true);
  });
}

synStatus synDeviceGetAttributeByModuleId(uint64_t* out, const synDeviceAttribute* which, const unsigned count,
                                          const synModuleId module) {
  return Call("synDeviceGetAttributeByModuleId", "count", count, "module", module).run([&] {
    rule(module < configuration().devices, synInvalidArgument, "module-id", "module ", module);
    return attributes(out, which, count, false);
  });
}

synStatus synDeviceTypeGetAttribute(uint64_t* out, const synDeviceAttribute* which, const unsigned count,
                                    const synDeviceType type) {
  return Call("synDeviceTypeGetAttribute", "count", count, "type", type).run([&] {
    rule(type == configuration().generation.type, synDeviceTypeMismatch, "device-type", "type ", type);
    return attributes(out, which, count, false);
  });
}

synStatus synConfigurationSet(const char* name, const char* value) {
  return Call("synConfigurationSet", "name", name, "value", value).run([&] {
    rule(name && value, synInvalidArgument, "arguments", "no name or value");
    return synSuccess;  // private settings of the compiler, which has none here
  });
}

synStatus synConfigurationGet(const char* name, char* out, uint64_t room) {
  return Call("synConfigurationGet", "name", name).run([&] {
    rule(name != nullptr, synInvalidArgument, "arguments", "no name");
    return copy_text(out, static_cast<int64_t>(std::min<uint64_t>(room, 1 << 20)), "");
  });
}

synStatus synStatusGetBriefDescription(synStatus status, char* out, size_t room) {
  return Call("synStatusGetBriefDescription", "status", status).anytime().run([&] {
    return copy_text(out, static_cast<int64_t>(std::min<size_t>(room, 56)), status_name(status));
  });
}

synStatus synGetLastError(void) { return last_status(); }
const char* synGetErrorString(synStatus status) { return status_name(status); }
const char* synGetLastErrorMessage(void) { return last_message(); }
