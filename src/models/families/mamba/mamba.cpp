// SPDX-License-Identifier: Apache-2.0
// Mamba (Gu and Dao, 2023): blocks that walk a text with a state for each channel, whose step, input and output depend
// on the token; and Falcon Mamba (Zuo et al., 2024): with norms of these three. B batch, T time, D inner width, S
// state.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/mamba/mamba_parts.h"
#include "models/nn/recurrence/state_layers.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

struct Mamba1Config : MambaConfig {
  Mamba1Config(const Config& config, bool normed) : MambaConfig(config, true) {
    const Json& fields = json_of(config);
    const auto given = fields.find("time_step_rank");
    const bool is_auto = given == fields.end() || *given == "auto";
    if (is_auto) config.has("time_step_rank");
    time_step_rank = is_auto ? (hidden_size + 15) / 16 : config.get_int("time_step_rank");
    if (time_step_rank < 1) fail("{}: time_step_rank: expected 1 or more, found {}", config.where(), time_step_rank);
    step_deviation = config.get_float("time_step_scale", 1) / std::sqrt(static_cast<double>(time_step_rank));
    steps_are_drawn = config.get_string("time_step_init_scheme", "random") == "random";
    if (normed) mixer_epsilon = config.get_float("mixer_rms_eps", 1e-6);
  }
  int64_t time_step_rank = 0;
  double step_deviation = 0;
  bool steps_are_drawn = true;
  std::optional<double> mixer_epsilon;  // of norms of steps, inputs and outputs
};

class Mamba1Mixer {
 public:
  Mamba1Mixer(const Scope& scope, const Mamba1Config& c, int64_t layer)
      : c_(c),
        state_(2 * static_cast<size_t>(layer)),
        a_log_(scope.parameter("A_log", {c.intermediate_size, c.state_size}, Initial::given(rates(c)))),
        d_(scope.parameter("D", {c.intermediate_size}, Initial::ones())),
        conv1d_(scope / "conv1d", c.intermediate_size, c.conv_kernel, c.use_conv_bias),
        in_proj_(scope / "in_proj", c.hidden_size, 2 * c.intermediate_size,
                 {.bias = c.use_bias, .deviation = c.initializer_range}),
        x_proj_(scope / "x_proj", c.intermediate_size, c.time_step_rank + 2 * c.state_size,
                {.bias = false, .deviation = c.initializer_range}),
        steps_(scope / "dt_proj"),
        step_weight_(steps_.parameter("weight", {c.intermediate_size, c.time_step_rank},
                                      c.steps_are_drawn ? Initial::normal(c.step_deviation / std::sqrt(3.0))
                                                        : Initial::constant(c.step_deviation))),
        step_bias_(steps_.parameter("bias", {c.intermediate_size}, Initial::given(c.step_biases(c.intermediate_size)))),
        out_proj_(scope / "out_proj", c.intermediate_size, c.hidden_size,
                  {.bias = c.use_bias, .deviation = c.output_deviation()}) {
    step_weight_->use = Parameter::Use::kLinear;
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), D = c_.intermediate_size, S = c_.state_size, R = c_.time_step_rank;
    const Tensor both = in_proj_(without_padding(x, mask, context), context);
    const Tensor gate = slice(both, 2, D, 2 * D);
    Tensor u = activation(c_.hidden_act, conv1d_(slice(both, 2, 0, D), state_, context));
    u = without_padding(u, mask, context);
    const Tensor chosen = x_proj_(u, context);
    const Tensor dt =
        softplus(cast(linear(normed(slice(chosen, 2, 0, R), context), *step_weight_, {}, context), DType::kFloat32) +
                 cast(step_bias_->value, DType::kFloat32));
    const auto of_state = [&](int64_t begin) {
      return reshape(normed(slice(chosen, 2, begin, begin + S), context), {B, T, 1, S});
    };
    const Tensor a = neg(exp(cast(a_log_->value, DType::kFloat32)));
    const Tensor scanned =
        scan_tokens(reshape(u, {B, T, D, 1}), dt, a, of_state(R), of_state(R + S), state_ + 1, context);
    const Tensor wide = cast(u, DType::kFloat32), d = cast(d_->value, DType::kFloat32);
    const Tensor y = (reshape(scanned, {B, T, D}) + wide * d) * silu(cast(gate, DType::kFloat32));
    return out_proj_(cast(y, x.dtype()), context);
  }

 private:
  static std::vector<float> rates(const Mamba1Config& c) {
    if (c.intermediate_size > kMostInitialValues / c.state_size)
      fail("config.json: state_size {} of {} channels are more than this takes", c.state_size, c.intermediate_size);
    std::vector<float> row;
    for (int64_t s = 1; s <= c.state_size; ++s) row.push_back(std::log(static_cast<float>(s)));
    std::vector<float> values;
    for (int64_t channel = 0; channel < c.intermediate_size; ++channel)
      values.insert(values.end(), row.begin(), row.end());
    return values;
  }
  Tensor normed(const Tensor& x, const ForwardContext& context) const {
    if (!c_.mixer_epsilon) return x;
    return rms_norm(x, full({x.dim(2)}, 1, x.dtype()), *c_.mixer_epsilon, context.computing);
  }

  Mamba1Config c_;
  size_t state_;  // that of the convolution, before that of the scan
  std::shared_ptr<Parameter> a_log_, d_;
  CausalConvolution conv1d_;
  Linear in_proj_, x_proj_;
  Scope steps_;
  std::shared_ptr<Parameter> step_weight_, step_bias_;
  Linear out_proj_;
};

std::unique_ptr<Decoder> make_mamba1(const Config& config, const Scope& scope, bool normed) {
  const Mamba1Config c(config, normed);
  return make_mamba_body(c, scope, [&](const Scope& mixer, int64_t layer) -> MambaMixer {
    const auto made = std::make_shared<Mamba1Mixer>(mixer, c, layer);
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
