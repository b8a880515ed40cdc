// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/device.h"

#include <algorithm>

#include "transom/plugin/error.h"

void transom_device::expect_alive() {
  const std::lock_guard lock(mutex_);
  if (lost_) transom::gpu::fail(TRANSOM_DEVICE_LOST, "{}", *lost_);
}

void transom_device::lost(std::string why) {
  const std::lock_guard lock(mutex_);
  if (!lost_) lost_ = std::move(why);
}

void transom_device::watch(const void* key, std::function<void()> check) {
  const std::lock_guard lock(mutex_);
  watched_.emplace(key, std::move(check));
}

void transom_device::forget(const void* key) {
  const std::lock_guard lock(mutex_);
  watched_.erase(key);
}

void transom_device::check_watched() {
  std::vector<std::function<void()>> checks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, check] : watched_) checks.push_back(check);
  }
  for (const auto& check : checks) check();
}

transom_device::Profile transom_device::profile() {
  const std::lock_guard lock(mutex_);
  return profile_;
}

void transom_device::set_profile(Profile next) {
  const std::lock_guard lock(mutex_);
  profile_ = next;
}

std::byte* transom_buffer::at(const transom_binding& binding, size_t size) {
  if (size == 0 && !binding.buffer) return nullptr;
  if (!binding.buffer) transom::gpu::fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer of {} bytes, found none", size);
  transom::backend::expect_inside(binding, binding.buffer->bytes, size);
  return binding.buffer->data ? binding.buffer->data + binding.offset : nullptr;
}

transom_stream::transom_stream(transom_device* device) : device(device) {
  marked.queue = device->context->make_queue();
  device->memory.add(marked);
}

transom_stream::~transom_stream() {
  device->memory.remove(marked);
  marked.queue.reset();  // waits
  for (std::byte* memory : recorded_) device->memory.release(memory);
  if (scratch_) device->memory.release(scratch_);
}

void transom_stream::synchronize() {
  marked.queue->synchronize();
  device->memory.completed(marked);
  device->check_watched();
}

std::byte* transom_stream::scratch(size_t bytes) {
  if (bytes > 0 && bytes <= scratch_bytes_) {
    in_recording_ |= marked.capturing;
    return scratch_;
  }
  const size_t larger = std::max(bytes, scratch_bytes_ * 2);
  auto* next = static_cast<std::byte*>(device->memory.allocate(larger));
  if (scratch_ && in_recording_) recorded_.push_back(scratch_);
  else if (scratch_) device->memory.release(scratch_);
  in_recording_ = marked.capturing;
  scratch_ = next;
  scratch_bytes_ = larger;
  return scratch_;
}
