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

// ---- GGUF

double mamba1_number(const Json& config, const char* field, double otherwise) {
  return config.contains(field) && config[field].is_number() ? config[field].get<double>() : otherwise;
}

int64_t mamba1_inner_width(const Json& config, int64_t width) {
  const double expand = mamba1_number(config, "expand", 2);
  return mamba_count(config, "intermediate_size", static_cast<int64_t>(expand * static_cast<double>(width)));
}

// Readers take the inner width to be twice that of the model, and norms of steps to have the epsilon of all.
Json mamba1_keys(const Json& config, bool normed) {
  const int64_t width = mamba_count(config, "hidden_size", 768), inner = mamba1_inner_width(config, width);
  if (inner != 2 * width)
    fail(ErrorKind::kUnsupported,
         "config.json: intermediate_size: {} cannot be written as GGUF of mamba, which takes it to be twice "
         "hidden_size ({})",
         inner, width);
  if (const double epsilon = mamba1_number(config, "layer_norm_epsilon", 1e-5),
      own = mamba1_number(config, "mixer_rms_eps", 1e-6);
      normed && epsilon != own)
    fail(ErrorKind::kUnsupported,
         "config.json: mixer_rms_eps: {} cannot be written as GGUF of mamba, which has one epsilon for it and "
         "layer_norm_epsilon ({})",
         own, epsilon);
  return {{"ssm.inner_size", inner},
          {"ssm.state_size", mamba_count(config, "state_size", 16)},
          {"ssm.time_step_rank", mamba_count(config, "time_step_rank", (width + 15) / 16)},
          {"ssm.dt_b_c_rms", normed}};
}

GgufFamily mamba1_gguf(const std::string& model_class, bool normed) {
  const auto bare = [](const char* gguf, const char* name, GgufChange change) {
    GgufName rule{gguf, name, change};
    rule.ending = "";
    return rule;
  };
  GgufFamily gguf = mamba_gguf("mamba", model_class,
                               {{"ssm_x", "mixer.x_proj"},
                                {"ssm_dt", "mixer.dt_proj"},
                                bare("ssm_a", "mixer.A_log", GgufChange::kRates),
                                bare("ssm_d", "mixer.D", GgufChange::kNone)});
  gguf.more_keys = [normed](const Json& config) { return mamba1_keys(config, normed); };
  gguf.more_fields = [normed](const Json& metadata) {
    Json fields{{"intermediate_size", mamba_key(metadata, "ssm", "inner_size")},
                {"state_size", mamba_key(metadata, "ssm", "state_size")},
                {"time_step_rank", mamba_key(metadata, "ssm", "time_step_rank")},
                {"expand", 2}};
    if (normed) fields["mixer_rms_eps"] = mamba_key(metadata, "attention", "layer_norm_rms_epsilon");
    return fields;
  };
  if (normed)
    gguf.is_told = [](const Json& metadata) {
      const Json own = metadata.contains("ssm") ? Json(metadata["ssm"]) : Json::object();
      return own.is_object() && own.contains("dt_b_c_rms") && own["dt_b_c_rms"] == true;
    };
  return gguf;
}

}  // namespace

static Family mamba_family() {
  return mamba_record("mamba", "Mamba", make_mamba, mamba1_gguf("MambaForCausalLM", false));
}
static Family falcon_mamba_family() {
  return mamba_record("falcon_mamba", "FalconMamba", make_falcon_mamba, mamba1_gguf("FalconMambaForCausalLM", true));
}

const RegisterFamilies kMambaFamilies{mamba_family, falcon_mamba_family};

}  // namespace transom
