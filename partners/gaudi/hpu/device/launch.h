// SPDX-License-Identifier: Apache-2.0
// One run of an executable, with everything found that does not change when it is run again.
#pragma once

#include "hpu/device/executable.h"

class transom_executable::Prepared {
 public:
  Prepared(transom_device* device) : device_(device) {}
  ~Prepared() {
    const std::lock_guard lock(device_->mutex);
    for (auto& [value, block] : between) device_->memory->free(std::move(block));
    for (auto& [output, block] : apart) device_->memory->free(std::move(block));
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  struct Place {
    transom_buffer* buffer = nullptr;
    transom::hpu::Block* block = nullptr;
    size_t offset = 0;
  };
  std::vector<Place> inputs, outputs;
  std::map<size_t, std::unique_ptr<transom::hpu::Block>> between;  // by value: what goes from segment to segment
  std::map<size_t, std::unique_ptr<transom::hpu::Block>> apart;    // by output: copied to its place at the end
  const Variant* variant = nullptr;
  std::vector<std::vector<synLaunchTensorInfo>> infos;  // by segment
  std::vector<std::vector<transom::hpu::Block*>> reads, writes;

 private:
  transom_device* device_;
};
