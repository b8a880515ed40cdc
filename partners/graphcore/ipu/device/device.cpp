// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/device.h"

#include <cstdlib>
#include <new>

#include "transom/plugin/error.h"

namespace {

using transom::backend::fail;

// DDR memory beside the machine: 32 GB for each IPU, as in the published systems of Bow.
constexpr uint64_t kStreamingBytes = uint64_t{32} << 30;

}  // namespace

transom_device::transom_device(poplar::Device opened)
    : machine(std::move(opened)), memory_limit(kStreamingBytes * machine.getTarget().getNumIPUs()) {}

transom_device::Profile transom_device::profile() {
  const std::lock_guard lock(mutex_);
  return profile_;
}

void transom_device::set_profile(Profile next) {
  const std::lock_guard lock(mutex_);
  profile_ = next;
}

transom_buffer::transom_buffer(transom_device* device, size_t bytes) : device(device), bytes(bytes) {
  const auto refuse = [&](uint64_t in_use) {
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: expected room for {} bytes, {} of {} are in use", bytes, in_use,
         device->memory_limit);
  };
  if (bytes > device->memory_limit) refuse(device->in_use);
  const uint64_t now = device->in_use += bytes;
  if (now > device->memory_limit) {
    device->in_use -= bytes;
    refuse(now - bytes);
  }
  data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
  if (!data) {
    device->in_use -= bytes;
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: the host has no {} bytes to stream from", bytes);
  }
  ++device->allocations;
  uint64_t peak = device->peak;
  while (peak < now && !device->peak.compare_exchange_weak(peak, now)) {
  }
}

transom_buffer::~transom_buffer() {
  std::free(data);
  device->in_use -= bytes;
}

std::byte* transom_buffer::at(const transom_binding& binding, size_t size) {
  if (!binding.buffer) {
    if (size) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer of {} bytes, found none", size);
    return nullptr;
  }
  transom::backend::expect_inside(binding, binding.buffer->bytes, size);
  return binding.buffer->data + binding.offset;
}
