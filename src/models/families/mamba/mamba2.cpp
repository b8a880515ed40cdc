// SPDX-License-Identifier: Apache-2.0
// Mamba-2 (Dao and Gu, 2024): heads with one rate each, whose inputs and outputs groups of them share.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/infinity.h"
#include "models/families/mamba/mamba_parts.h"
#include "models/nn/recurrence/mamba2_mixer.h"

namespace transom {
namespace {

constexpr char kMamba2Defaults[] =
    R"({"vocab_size": 32768, "hidden_size": 4096, "state_size": 128, "num_hidden_layers": 64, "pad_token_id": 1})";

double number_or_infinity(const Json& value, const Config& config) {
  if (value.is_number()) return value.get<double>();
  if (is_infinity(value)) return std::numeric_limits<double>::infinity();
  fail("{}: time_step_limit: expected two numbers, found {}", config.where(), value.dump());
}

// The field time_step_limit: two numbers, of which the second may be infinity.
std::pair<double, double> step_limit_of(const Config& config) {
  if (!config.has("time_step_limit")) return Mamba2Plan{}.step_limit;
  const Json& limits = json_of(config).at("time_step_limit");
  if (!limits.is_array() || limits.size() != 2)
    fail("{}: time_step_limit: expected two numbers, found {}", config.where(), limits.dump());
  return {number_or_infinity(limits[0], config), number_or_infinity(limits[1], config)};
}

std::unique_ptr<Decoder> make_mamba2(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kMamba2Defaults);
  const MambaConfig c(config, false);
  const Mamba2Plan plan{.width = c.hidden_size,
                        .inner = c.intermediate_size,
                        .heads = config.get_int("num_heads", 128),
                        .head_size = config.get_int("head_dim", 64),
                        .groups = config.get_int("n_groups", 8),
                        .state = c.state_size,
                        .taps = c.conv_kernel,
                        .bias = c.use_bias,
                        .conv_bias = c.use_conv_bias,
                        .activation = c.hidden_act,
                        .epsilon = c.layer_norm_epsilon,
                        .step_limit = step_limit_of(config),
                        .deviation = c.initializer_range,
                        .output_deviation = c.output_deviation(),
                        .step_biases = c.step_biases(config.get_int("num_heads", 128))};
  // How the scan is cut, and a rank that nothing has.
  for (const char* key : {"chunk_size", "time_step_rank"}) config.has(key);
  return make_mamba_body(c, scope, [&](const Scope& mixer, int64_t layer) -> MambaMixer {
    const auto made = std::make_shared<Mamba2Mixer>(mixer, plan, 2 * static_cast<size_t>(layer));
    return [made](const Tensor& x, const Tensor& mask, ForwardContext& context) { return (*made)(x, mask, context); };
  });
}

}  // namespace

static Family mamba2_family() { return mamba_record("mamba2", "Mamba2", make_mamba2); }

const RegisterFamilies kMamba2Families{mamba2_family};

}  // namespace transom
