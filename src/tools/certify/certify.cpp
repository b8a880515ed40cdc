// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/certify.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device/device.h"
#include "transom/tensor.h"

namespace transom::certify {

void Recorder::add(Row row) {
  report_.rows.push_back(std::move(row));
  if (options_.observe) options_.observe(report_.rows.back());
}

Report certify(const Options& options) {
  static const std::vector<std::pair<std::string, void (*)(Recorder&)>> kLevels = {{"operations", certify_operations},
                                                                                   {"behaviour", certify_behaviour},
                                                                                   {"models", certify_models},
                                                                                   {"on-policy", certify_on_policy}};
  for (const std::string& level : options.levels)
    if (std::none_of(kLevels.begin(), kLevels.end(), [&](const auto& known) { return known.first == level; }))
      fail(ErrorKind::kUsage, "--level: expected operations, models, behaviour or on-policy, found {}", quoted(level));
  set_device(options.device);
  set_mode(Mode::kLazy);
  const std::shared_ptr<Device> device = default_device();
  Report report;
  report.seed = options.seed;
  report.plugin_version = device->table().version;
  report.device = describe_device(*device);
  Recorder recorder(report, options);
  for (const auto& [name, run] : kLevels) {
    // The last one is of an engine and a trainer as much as of a device: only who names it has it.
    const bool named = std::find(options.levels.begin(), options.levels.end(), name) != options.levels.end();
    if (options.levels.empty() ? name == "on-policy" : !named) continue;
    report.levels.push_back(name);
    if (!recorder.stopped()) run(recorder);
  }
  return report;
}

}  // namespace transom::certify
