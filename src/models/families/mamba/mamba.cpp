// SPDX-License-Identifier: Apache-2.0
// Mamba (Gu and Dao, 2023): blocks that walk a text with a state for each channel, whose step, input and output depend
// on the token; and Falcon Mamba (Zuo et al., 2024): with norms of these three.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/mamba/mamba_parts.h"
#include "models/nn/recurrence/mamba1_mixer.h"

namespace transom {
namespace {

int64_t rank_of_steps(const Config& config, int64_t width) {
  const Json& fields = json_of(config);
  const auto given = fields.find("time_step_rank");
  const bool is_auto = given == fields.end() || *given == "auto";
  if (is_auto) config.has("time_step_rank");
  const int64_t rank = is_auto ? (width + 15) / 16 : config.get_int("time_step_rank");
  if (rank < 1) fail("{}: time_step_rank: expected 1 or more, found {}", config.where(), rank);
  return rank;
}

std::unique_ptr<Decoder> make_mamba1(const Config& config, const Scope& scope, bool normed) {
  const MambaConfig c(config, true);
  Mamba1Plan plan{.width = c.hidden_size,
                  .inner = c.intermediate_size,
                  .state = c.state_size,
                  .rank = rank_of_steps(config, c.hidden_size),
                  .taps = c.conv_kernel,
                  .bias = c.use_bias,
                  .conv_bias = c.use_conv_bias,
                  .activation = c.hidden_act,
                  .deviation = c.initializer_range,
                  .output_deviation = c.output_deviation(),
                  .steps_are_drawn = config.get_string("time_step_init_scheme", "random") == "random",
                  .step_biases = c.step_biases(c.intermediate_size)};
  plan.step_deviation = config.get_float("time_step_scale", 1) / std::sqrt(static_cast<double>(plan.rank));
  if (normed) plan.norms = Mamba1Plan::Norms::kBare, plan.epsilon = config.get_float("mixer_rms_eps", 1e-6);
  return make_mamba_body(c, scope, [&](const Scope& mixer, int64_t layer) -> MambaMixer {
    const auto made = std::make_shared<Mamba1Mixer>(mixer, plan, 2 * static_cast<size_t>(layer));
    return [made](const Tensor& x, const Tensor& mask, ForwardContext& context) { return (*made)(x, mask, context); };
  });
}

std::unique_ptr<Decoder> make_mamba(const Config& config, const Scope& scope) {
  return make_mamba1(config, scope, false);
}
std::unique_ptr<Decoder> make_falcon_mamba(const Config& config, const Scope& scope) {
  return make_mamba1(config, scope, true);
}

}  // namespace

static Family mamba_family() { return mamba_record("mamba", "Mamba", make_mamba); }
static Family falcon_mamba_family() { return mamba_record("falcon_mamba", "FalconMamba", make_falcon_mamba); }

const RegisterFamilies kMambaFamilies{mamba_family, falcon_mamba_family};

}  // namespace transom
