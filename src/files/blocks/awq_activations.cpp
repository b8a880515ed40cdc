// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/awq_activations.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/blocks/quantized_parts.h"
#include "files/family/family.h"

namespace transom {
namespace {

constexpr std::string_view kNextLayers[] = {".c_proj", ".dense_4h_to_h"};
constexpr const char* kScales[] = {".act.scales", ".gelu_impl.scales"};

}  // namespace

std::string awq_activation_scales(const std::string& model_type, const std::string& module) {
  const Family* family = find_family(model_type);
  if (!family || family->weights.awq_activation->layer.empty()) return "";
  const ScaledActivation& scaled = *family->weights.awq_activation;
  if (!module.ends_with("." + scaled.layer)) return "";
  return module.substr(0, module.rfind('.') + 1) + scaled.activation + ".scales";
}

std::map<std::string, std::vector<float>> take_awq_divisors(Checkpoint& checkpoint) {
  std::map<std::string, std::vector<float>> found;
  for (const char* ending : kScales)
    for (const std::string& module : modules_with(checkpoint, ending)) {
      const std::string where = fmt::format("{}: tensor {}", checkpoint.where(), quoted(module + ending));
      std::vector<float> divisors = floats_of(take_part(checkpoint, module + ending), where);
      for (const float divisor : divisors)
        if (divisor == 0 || !std::isfinite(divisor))
          fail("{}: expected finite numbers other than 0, found {}", where, divisor);
      const bool ones = std::all_of(divisors.begin(), divisors.end(), [](float divisor) { return divisor == 1; });
      if (!ones) found[module] = std::move(divisors);
    }
  return found;
}

std::vector<float> take_divisors_of(const std::string& layer, std::map<std::string, std::vector<float>>& divisors) {
  const size_t dot = std::min(layer.rfind('.'), layer.size());
  if (std::find(std::begin(kNextLayers), std::end(kNextLayers), layer.substr(dot)) == std::end(kNextLayers)) return {};
  const auto found = divisors.extract(layer.substr(0, dot));
  return found.empty() ? std::vector<float>{} : std::move(found.mapped());
}

}  // namespace transom
