// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "call.h"
#include "configuration.h"

namespace synapse_emulator {
namespace {

constexpr uint64_t kPoisonLimit = 16 << 20;  // larger pieces stay untouched, so that they cost no memory of the host

uint64_t rounded(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Pages::Pages(uint64_t bytes, bool poison) : bytes_(bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(data);
  if (poison && configuration().values && bytes <= kPoisonLimit)
    std::memset(data_, 0xFF, bytes);  // NaN in every floating type
}

Pages::~Pages() { munmap(data_, bytes_); }

void DeviceMemory::reset(uint64_t capacity, uint64_t alignment) {
  const std::lock_guard lock(mutex_);
  capacity_ = capacity;
  alignment_ = alignment;
  used_ = highest_ = 0;
  allocations_.clear();
}

uint64_t DeviceMemory::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t room = bytes > capacity_ ? bytes : rounded(bytes, alignment_);
  if (room > capacity_ - used_)
    throw Failure{synOutOfDeviceMemory, join("the device has ", capacity_ - used_, " of ", capacity_, " bytes left")};
  uint64_t address = kBase;  // first fit, as fragmentation is part of the device
  for (const auto& [begin, allocation] : allocations_) {
    if (begin - address >= room) break;
    address = begin + rounded(allocation.bytes, alignment_);
  }
  if (address + room > kBase + capacity_)
    throw Failure{synOutOfDeviceMemory, join("no piece of ", bytes, " bytes is free: the memory is fragmented")};
  allocations_.emplace(address, Allocation{bytes, std::make_shared<Pages>(room, configuration().poison)});
  used_ += room;
  highest_ = std::max(highest_, used_);
  return address;
}

uint64_t DeviceMemory::free(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  rule(found != allocations_.end(), synInvalidArgument, "device-free", "no allocation begins at ", address);
  const uint64_t bytes = found->second.bytes;
  used_ -= rounded(bytes, alignment_);
  allocations_.erase(found);
  return bytes;
}

Place DeviceMemory::place(uint64_t address, uint64_t bytes, int status, const char* what) const {
  const std::lock_guard lock(mutex_);
  auto found = allocations_.upper_bound(address);
  rule(found != allocations_.begin(), status, "device-address", what, ": ", address, " is no address of the device");
  --found;
  const uint64_t offset = address - found->first;
  rule(offset < found->second.bytes && bytes <= found->second.bytes - offset, status, "device-address", what, ": [",
       address, ", +", bytes, ") is not inside of an allocation (the nearest is ", found->first, ", +",
       found->second.bytes, ")");
  return {found->second.pages->data() + offset, found->second.pages};
}

uint64_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}
uint64_t DeviceMemory::highest() const {
  const std::lock_guard lock(mutex_);
  return highest_;
}
size_t DeviceMemory::count() const {
  const std::lock_guard lock(mutex_);
  return allocations_.size();
}

void* HostMappings::allocate(uint64_t bytes) {
  auto pages = std::make_shared<Pages>(bytes, false);
  const std::lock_guard lock(mutex_);
  char* data = pages->data();
  mappings_.emplace(reinterpret_cast<uint64_t>(data), Mapping{bytes, std::move(pages)});
  return data;
}

void HostMappings::free(const void* buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(reinterpret_cast<uint64_t>(buffer));
  rule(found != mappings_.end() && found->second.pages, synInvalidArgument, "host-free", buffer,
       " was not given by synHostMalloc");
  mappings_.erase(found);
}

void HostMappings::map(const void* buffer, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t begin = reinterpret_cast<uint64_t>(buffer);
  const auto next = mappings_.lower_bound(begin);
  const bool free_after = next == mappings_.end() || next->first >= begin + bytes;
  const bool free_before = next == mappings_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= begin;
  rule(free_after && free_before, synInvalidArgument, "host-map", "[", buffer, ", +", bytes, ") is mapped already");
  mappings_.emplace(begin, Mapping{bytes, nullptr});
}

void HostMappings::unmap(const void* buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(reinterpret_cast<uint64_t>(buffer));
  rule(found != mappings_.end() && !found->second.pages, synMappingNotFound, "host-unmap", buffer, " is not mapped");
  mappings_.erase(found);
}

Place HostMappings::place(uint64_t address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto found = mappings_.upper_bound(address);
  const bool inside = found != mappings_.begin() && address - (--found)->first < found->second.bytes &&
                      bytes <= found->second.bytes - (address - found->first);
  rule(inside, synMappingNotFound, "host-mapping", "[", address, ", +", bytes,
       ") of the host is not mapped to the device");
  return {reinterpret_cast<char*>(address), found->second.pages};
}

size_t HostMappings::allocated() const {
  const std::lock_guard lock(mutex_);
  size_t result = 0;
  for (const auto& [address, mapping] : mappings_) result += mapping.pages != nullptr;
  return result;
}
size_t HostMappings::mapped() const {
  const std::lock_guard lock(mutex_);
  size_t result = 0;
  for (const auto& [address, mapping] : mappings_) result += mapping.pages == nullptr;
  return result;
}
void HostMappings::clear() {
  const std::lock_guard lock(mutex_);
  mappings_.clear();
}

}  // namespace synapse_emulator
