// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/memory_metrics.h"

#include <algorithm>

#include "base/memory/resident_memory.h"
#include "runtime/device/device.h"

namespace transom {

void MemoryMetrics::begin(std::string_view stage) {
  if (skip_ || (!stage_.empty() && stage_ != stage)) return;
  stage_ = stage;
  const std::shared_ptr<Device> device = default_device();
  device->synchronize();
  if (device->table().memory_reset_peak) {
    transom_error error{};
    device->expect_ok(device->table().memory_reset_peak(device->handle(), &error), error);
  }
  reset_resident_peak();
  host_.begin = resident_bytes();
  device_.begin = static_cast<int64_t>(device->memory_use().in_use);
}

void MemoryMetrics::end(std::string_view stage, LogRecord* record) {
  if (skip_ || stage_ != stage) return;
  const std::shared_ptr<Device> device = default_device();
  device->synchronize();
  const auto measured = [](int64_t begin, int64_t now, int64_t peak) {
    return Use{begin, now - begin, std::max<int64_t>(0, peak - now)};
  };
  const MemoryUse use = device->memory_use();
  on_host_[stage_] = measured(host_.begin, resident_bytes(), resident_peak_bytes());
  if (!device->shares_host_memory())
    on_device_[stage_] = measured(device_.begin, static_cast<int64_t>(use.in_use), static_cast<int64_t>(use.peak));
  stage_.clear();
  if (!record) return;
  const auto tell = [&](const std::string& name) {
    for (const auto& [kind, uses] : {std::pair{"cpu", &on_host_}, std::pair{"gpu", &on_device_}}) {
      const auto found = uses->find(name);
      if (found == uses->end()) continue;
      record->emplace_back(name + "_mem_" + kind + "_alloc_delta", found->second.allocated);
      record->emplace_back(name + "_mem_" + kind + "_peaked_delta", found->second.peaked);
      if (name == "init") record->emplace_back(std::string("before_init_mem_") + kind, found->second.begin);
    }
  };
  if (!told_init_) tell("init");
  told_init_ = true;
  tell(std::string(stage));
}

}  // namespace transom
