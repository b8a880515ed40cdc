// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "apps/cli/command.h"
#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/descriptions/settings.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "transom/tensor.h"

namespace transom {

void DeviceOptions::apply() const {
  if (const std::string name = device_of_process(device); !name.empty()) set_device(name);
  const std::string chosen = mode.empty() ? device_defaults().mode : mode;
  set_mode(chosen.empty() ? Mode::kLazy : mode_named(chosen));
}

Command devices_command() {
  static bool json = false;
  Command command{.name = "devices",
                  .help = "List the devices that were found, and why others were not",
                  .examples = "  transom devices\n  transom devices --json"};
  command.options = {{"--json", &json, "machine-readable output (JSON)"}};
  command.run = [] {
    const std::vector<DeviceInfo> devices = list_devices();
    if (json) {
      Json list = Json::array();
      for (const DeviceInfo& d : devices) {
        Json fast = Json::array();
        for (const DType dtype : d.fast_dtypes) fast.push_back(name_of(dtype));
        list.push_back({{"name", d.name},
                        {"available", d.reason.empty()},
                        {"description", d.description},
                        {"architecture", d.architecture},
                        {"driver", d.driver},
                        {"memory_bytes", d.memory_bytes},
                        {"compute_units", d.compute_units},
                        {"fast_dtypes", fast},
                        {"emulated", d.emulated},
                        {"computes_nothing", d.computes_nothing},
                        {"plugin", d.plugin},
                        {"reason", d.reason}});
      }
      std::puts(dump_json(list, 2).c_str());
      return 0;
    }
    size_t width = 12;
    for (const DeviceInfo& d : devices) width = std::max(width, d.name.size());
    std::puts(
        fmt::format("{:<{}} {:<28} {:>6} {:>9}  {}", "DEVICE", width, "WHAT", "UNITS", "MEMORY", "NOTES").c_str());
    for (const DeviceInfo& d : devices) {
      // A name that this version has no plugin for is no installation that is missing something.
      const bool unknown = d.reason.starts_with("there is no plugin");
      std::string notes = unknown             ? "not supported by this version; a plugin of another maker may add it"
                          : !d.reason.empty() ? "not available: " + d.reason
                                              : d.architecture;
      if (d.reason.empty() && !d.driver.empty()) notes += "; " + d.driver;
      if (d.emulated) notes = "emulated; " + notes;
      if (d.computes_nothing) notes = "computes nothing; " + notes;
      const std::string memory =
          d.memory_bytes ? fmt::format("{:.1f} GiB", static_cast<double>(d.memory_bytes) / (1u << 30)) : "-";
      std::puts(fmt::format("{:<{}} {:<28.28} {:>6} {:>9}  {}", d.name, width,
                            d.description.empty() ? "-" : d.description, d.compute_units, memory, notes)
                    .c_str());
    }
    std::puts("\nNot supported yet: GPUs of Apple. Those of Intel and of others are used through OpenCL.");
    return 0;
  };
  return command;
}

}  // namespace transom
