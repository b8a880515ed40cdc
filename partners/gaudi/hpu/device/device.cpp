// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/device.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hpu/recipe/recipe_cache.h"

namespace transom::hpu {
namespace {

// "0,3" as numbers; nothing where the variable is not set or says "all".
std::optional<std::vector<synModuleId>> modules_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text || !std::strcmp(text, "all")) return std::nullopt;
  std::vector<synModuleId> modules;
  const char* end = text + std::strlen(text);
  for (const char* at = text; at < end;) {
    synModuleId module = 0;
    const auto [stop, error] = std::from_chars(at, end, module);
    if (error != std::errc() || (stop != end && *stop != ','))
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected numbers of modules such as 0,1, found '{}'", variable, text);
    modules.push_back(module);
    at = stop + (stop != end);
  }
  return modules;
}

struct Generation {
  const char* name;
  const char* architecture;
};

Generation generation_of(synDeviceType type) {
  switch (type) {
    case synDeviceGaudi:
      return {"Intel Gaudi", "gaudi"};
    case synDeviceGaudi2:
      return {"Intel Gaudi 2", "gaudi2"};
    case synDeviceGaudi3:
      return {"Intel Gaudi 3", "gaudi3"};
    default:
      fail(TRANSOM_UNAVAILABLE, "expected a Gaudi, Gaudi 2 or Gaudi 3, found a device of type {}", type);
  }
}

}  // namespace

std::vector<synModuleId> visible_modules(const SynapseLibrary& library) {
  uint32_t count = 0;
  library.expect(library.synDeviceGetCount(&count), "counting devices");
  if (count == 0)
    fail(TRANSOM_UNAVAILABLE, "the library is there, but no Gaudi card; is its driver loaded (look at `hl-smi`)?");
  std::vector<synModuleId> modules(std::max<uint32_t>(count, 64));
  uint32_t found = static_cast<uint32_t>(modules.size());
  library.expect(library.synDeviceGetModuleIDs(modules.data(), &found), "asking for the modules");
  modules.resize(std::min<size_t>(found, modules.size()));
  std::sort(modules.begin(), modules.end());
  for (const char* variable : {"HLS_MODULE_ID", "HABANA_VISIBLE_MODULES"})
    if (const auto wanted = modules_of(variable)) {
      for (const synModuleId module : *wanted)
        if (std::find(modules.begin(), modules.end(), module) == modules.end())
          fail(TRANSOM_UNAVAILABLE, "{} names module {}, which this machine does not have", variable, module);
      return *wanted;
    }
  return modules;
}

std::optional<std::pair<size_t, int64_t>> first_too_wide(const void* elements, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    int64_t value;
    std::memcpy(&value, static_cast<const std::byte*>(elements) + i * sizeof value, sizeof value);
    if (value < INT32_MIN || value > INT32_MAX) return std::pair(i, value);
  }
  return std::nullopt;
}

transom_device_properties describe_module(const SynapseLibrary& library, synModuleId module) {
  const synDeviceAttribute wanted[] = {DEVICE_ATTRIBUTE_DEVICE_TYPE, DEVICE_ATTRIBUTE_DRAM_SIZE,
                                       DEVICE_ATTRIBUTE_TPC_ENABLED_MASK};
  uint64_t found[3] = {};
  library.expect(library.synDeviceGetAttributeByModuleId(found, wanted, 3, module), "asking for a device's properties");
  const auto type = static_cast<synDeviceType>(found[0]);
  const Generation generation = generation_of(type);
  transom_device_properties properties{.struct_size = sizeof properties};
  std::snprintf(properties.name, sizeof properties.name, "%s", generation.name);
  std::snprintf(properties.architecture, sizeof properties.architecture, "%s", generation.architecture);
  std::snprintf(properties.driver, sizeof properties.driver, "Synapse %s", library.version().c_str());
  properties.flags = TRANSOM_DEVICE_PLANS_MEMORY | TRANSOM_DEVICE_STATIC_SHAPES;
  properties.memory_bytes = found[1];
  properties.compute_units = static_cast<uint32_t>(std::popcount(found[2]));
  properties.fast_dtypes = 1u << TRANSOM_BFLOAT16 | (type == synDeviceGaudi ? 0u : 1u << TRANSOM_FLOAT16);
  return properties;
}

}  // namespace transom::hpu

using namespace transom::hpu;

transom_device::transom_device(std::shared_ptr<const SynapseLibrary> library, synModuleId module)
    : library_(std::move(library)), options_(Options::from_environment()) {
  const synStatus status = library_->synDeviceAcquireByModuleId(&id_, module);
  if (status == synDeviceAlreadyAcquired)
    fail(TRANSOM_UNAVAILABLE,
         "module {} is taken: another process has it, or this one has another card (a process holds one); name a free "
         "one in HLS_MODULE_ID",
         module);
  library_->expect(status, "acquiring the device");
  try {
    synDeviceInfo info{};
    library_->expect(library_->synDeviceGetInfo(id_, &info), "asking for the device's type");
    type_ = info.deviceType;
    generation_of(type_);
    lanes.emplace(*library_, id_);
    memory.emplace(*library_, id_, *lanes);
    staging.emplace(*library_, id_, *lanes);
    recipes_ = std::make_unique<RecipeCache>(*library_, type_, options_);
    library_->expect(library_->synEventCreate(&opened_, id_, EVENT_COLLECT_TIME), "creating an event");
    library_->expect(library_->synEventRecord(opened_, lanes->stream(Lane::kCompute)), "recording an event");
  } catch (...) {
    if (opened_) library_->synEventDestroy(opened_);
    recipes_.reset();
    staging.reset();
    memory.reset();
    lanes.reset();
    library_->synDeviceRelease(id_);
    throw;
  }
}

transom_device::~transom_device() {
  lanes->settle();
  if (workspace_) memory->free(std::move(workspace_));
  library_->synEventDestroy(opened_);
  recipes_.reset();
  staging.reset();
  memory.reset();
  lanes.reset();
  library_->synDeviceRelease(id_);
}

uint64_t transom_device::copy_in(const void* from, Block& to, size_t offset, size_t bytes) {
  constexpr size_t kPiece = size_t{64} << 20;
  Block* const target = &to;
  uint64_t ticket = 0;
  if (is_pinned(from, bytes))
    return lanes->submit(Lane::kIn, {}, {&target, 1}, [&](synStreamHandle stream) {
      library_->expect(
          library_->synMemCopyAsync(stream, reinterpret_cast<uint64_t>(from), bytes, to.address + offset, HOST_TO_DRAM),
          "copying to the device");
    });
  for (size_t done = 0; done < bytes; done += kPiece) {
    const size_t count = std::min(kPiece, bytes - done);
    Staging::Piece& piece = staging->acquire(count);
    std::memcpy(piece.data, static_cast<const std::byte*>(from) + done, count);
    ticket = lanes->submit(Lane::kIn, {}, {&target, 1}, [&](synStreamHandle stream) {
      library_->expect(library_->synMemCopyAsync(stream, reinterpret_cast<uint64_t>(piece.data), count,
                                                 to.address + offset + done, HOST_TO_DRAM),
                       "copying to the device");
    });
    piece.lane = Lane::kIn;
    piece.ticket = ticket;
  }
  return ticket;
}

uint64_t transom_device::copy_out(Block& from, size_t offset, void* to, size_t bytes, const void* owner) {
  constexpr size_t kPiece = size_t{64} << 20;
  Block* const source = &from;
  uint64_t ticket = 0;
  if (is_pinned(to, bytes))
    return lanes->submit(Lane::kOut, {&source, 1}, {}, [&](synStreamHandle stream) {
      library_->expect(
          library_->synMemCopyAsync(stream, from.address + offset, bytes, reinterpret_cast<uint64_t>(to), DRAM_TO_HOST),
          "copying from the device");
    });
  try {
    for (size_t done = 0; done < bytes; done += kPiece) {
      const size_t count = std::min(kPiece, bytes - done);
      Staging::Piece& piece = staging->acquire(count);
      ticket = lanes->submit(Lane::kOut, {&source, 1}, {}, [&](synStreamHandle stream) {
        library_->expect(library_->synMemCopyAsync(stream, from.address + offset + done, count,
                                                   reinterpret_cast<uint64_t>(piece.data), DRAM_TO_HOST),
                         "copying from the device");
      });
      piece.held = true;
      piece.lane = Lane::kOut;
      piece.ticket = ticket;
      pending_.push_back({ticket, &piece, static_cast<std::byte*>(to) + done, count, owner});
    }
  } catch (...) {
    forget_copies(owner);
    throw;
  }
  return ticket;
}

uint64_t transom_device::copy_across(Block& from, size_t from_offset, Block& to, size_t to_offset, size_t bytes) {
  Block *const source = &from, *const target = &to;
  // On the compute lane: what it copies was made there, and is used there.
  return lanes->submit(Lane::kCompute, {&source, 1}, {&target, 1}, [&](synStreamHandle stream) {
    library_->expect(
        library_->synMemCopyAsync(stream, from.address + from_offset, bytes, to.address + to_offset, DRAM_TO_DRAM),
        "copying on the device");
  });
}

bool transom_device::is_pinned(const void* memory, size_t bytes) const {
  auto after = pinned.upper_bound(const_cast<void*>(memory));
  if (after == pinned.begin()) return false;
  const auto& [start, size] = *--after;
  return static_cast<const std::byte*>(memory) + bytes <= static_cast<std::byte*>(start) + size;
}

void transom_device::wait(const Tickets& tickets, const void* owner) {
  try {
    lanes->wait(tickets);
  } catch (...) {
    forget_copies(owner);
    throw;
  }
  finish_copies();
}

void transom_device::forget_copies(const void* owner) {
  std::erase_if(pending_, [&](const PendingCopy& copy) {
    if (copy.owner == owner) copy.piece->held = false;  // its ticket keeps it until it is written
    return copy.owner == owner;
  });
}

void transom_device::finish_copies() {
  std::erase_if(pending_, [&](const PendingCopy& copy) {
    if (!lanes->done(Lane::kOut, copy.ticket)) return false;
    std::memcpy(copy.to, copy.piece->data, copy.bytes);
    copy.piece->held = false;
    return true;
  });
}

Block& transom_device::workspace(size_t bytes) {
  if (!workspace_ || workspace_->bytes < bytes) {
    if (workspace_) memory->give_back(std::move(workspace_));
    workspace_ = memory->allocate(bytes);
  }
  return *workspace_;
}

// By the card's clock, up to the end of all work so far.
double transom_device::seconds_since_opened() {
  const std::lock_guard lock(mutex);
  synEventHandle now = nullptr;
  uint64_t nanoseconds = 0;
  lanes->wait_for_all();
  library_->expect(library_->synEventCreate(&now, id_, EVENT_COLLECT_TIME), "creating an event");
  const bool told = library_->synEventRecord(now, lanes->stream(Lane::kCompute)) == synSuccess &&
                    library_->synEventSynchronize(now) == synSuccess &&
                    library_->synEventElapsedTime(&nanoseconds, opened_, now) == synSuccess;
  library_->synEventDestroy(now);
  return told ? static_cast<double>(nanoseconds) * 1e-9 : 0;
}

std::string transom_device::report() {
  const RecipeCache::Counts counts = recipes_->counts();
  return fmt::format(
      R"({{"device_seconds": {:.9g}, "recompilations": {}, "recipes_from_memory": {}, "recipes_from_disk": {}, "broken_disk_entries": {}, "host_segments": {}}})",
      seconds_since_opened(), counts.compiled, counts.from_memory, counts.from_disk, counts.broken,
      host_segments.load());
}
