// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/this_machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/device.h"
#include "tools/explain/roofline.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int kChain = 64;  // products one after the other: what they take beyond one is launches
constexpr double kLaunchesALayer =
    12;  // of a layer of LLaMA after fusion: seven products, two norms, rotary, attention, gate

// Seconds that a kernel takes at least, from the shortest of some runs of a chain of products too small to count.
double launch_seconds() {
  const NoGradient no_gradient;
  const Tensor side = full({16, 16}, 1.0 / 16, DType::kFloat32);
  eval({&side, 1});
  const auto shortest = [&](int products) {
    const CompiledFunction chain = compile(
        [&](const std::vector<Tensor>& x) {
          Tensor result = x[0];
          for (int i = 0; i < products; ++i) result = matmul(result, side, kAsGiven);
          return std::vector{result};
        },
        {.name = "launches", .capture = true, .donated = {}});
    double best = 1e30;
    for (int run = 0; run < 20; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      { const std::vector<Tensor> results = chain({side}); }
      default_device()->synchronize();
      if (run > 0)
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  return std::max(1e-8, (shortest(kChain) - shortest(1)) / (kChain - 1));
}

}  // namespace

std::string measured_device_file(const std::string& name) {
  const Limits limits = measure_limits();
  const double layer = kLaunchesALayer * launch_seconds();
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
                 {"layer_training", 3 * layer},
                 {"layer_inference", layer},
                 {"step", 1e-4},
                 {"overlap", 1},
                 {"overlap_decoding", 2},
                 {"convolution", 0.8},
                 {"separable", 0.3},
                 {"tuned", 1}}}};
  return dump_json(json, 2) + "\n";
}

}  // namespace transom
