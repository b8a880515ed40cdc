// SPDX-License-Identifier: Apache-2.0
#include "plan/this_machine.h"

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "device/device.h"
#include "explain/roofline.h"
#include "transom/device.h"

namespace transom {

std::string measured_device_file(const std::string& name) {
  const Limits limits = measure_limits();
  Json peaks = Json::object();
  for (const Limits::Products& products : limits.products) {
    const std::string engine = products.dtype == DType::kBFloat16  ? "bf16"
                               : products.dtype == DType::kFloat16 ? "fp16"
                               : products.dtype == DType::kFloat32 ? "fp32"
                                                                   : "int8";
    peaks[engine] = products.rate;
  }
  const transom_device_properties& properties = default_device()->properties();
  double memory = static_cast<double>(properties.memory_bytes);
  if (memory <= 0) memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  Json json = {{"name", name},
               {"title", fmt::format("this machine ({})", device_name())},
               {"family", "cpu"},
               {"measured", true},
               {"peak_operations_per_second", peaks},
               {"memory", {{"bytes", memory}, {"bytes_per_second", limits.bandwidth}, {"reserve_bytes", 1e8}}},
               {"devices_per_host", 1},
               {"prior",
                {{"matrix", 0.85},
                 {"matrix_inference", 0.85},
                 {"half_width", 20},
                 {"memory", 1},
                 {"passes", 0.5},
                 {"layer_training", 1e-4},
                 {"layer_inference", 2e-5},
                 {"step", 1e-4},
                 {"overlap", 1},
                 {"overlap_decoding", 2},
                 {"convolution", 0.8},
                 {"separable", 0.3},
                 {"tuned", 1}}}};
  return dump_json(json, 2) + "\n";
}

}  // namespace transom
