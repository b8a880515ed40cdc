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
#include "models/shared/rope_decoder_gguf.h"

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

// ---- GGUF

struct Mamba2Sizes {
  explicit Mamba2Sizes(const Json& config)
      : width(mamba_count(config, "hidden_size", 4096)),
        heads(mamba_count(config, "num_heads", 128)),
        head_size(mamba_count(config, "head_dim", 64)),
        groups(mamba_count(config, "n_groups", 8)),
        state(mamba_count(config, "state_size", 128)) {}
  int64_t width, heads, head_size, groups, state;
};

// Readers take the inner width to be twice that of the model, and clamp no steps.
Json mamba2_keys(const Json& config) {
  const Mamba2Sizes sizes(config);
  if (sizes.heads * sizes.head_size != 2 * sizes.width)
    fail(ErrorKind::kUnsupported,
         "config.json: num_heads: {} of {} numbers cannot be written as GGUF of mamba2, which takes them to be twice "
         "hidden_size ({})",
         sizes.heads, sizes.head_size, sizes.width);
  const Json limit = config.value("time_step_limit", Json());
  const bool is_free =
      limit.is_null() || (limit.is_array() && limit.size() == 2 && limit[0] == 0 && is_infinity(limit[1]));
  if (!is_free)
    fail(ErrorKind::kUnsupported,
         "config.json: time_step_limit: {} cannot be written as GGUF of mamba2, which has no "
         "key for it",
         limit.dump());
  return {{"ssm.inner_size", 2 * sizes.width},
          {"ssm.state_size", sizes.state},
          {"ssm.time_step_rank", sizes.heads},
          {"ssm.group_count", sizes.groups}};
}

Json mamba2_fields(const Json& metadata) {
  const auto inner = mamba_key(metadata, "ssm", "inner_size").get<int64_t>(),
             heads = mamba_key(metadata, "ssm", "time_step_rank").get<int64_t>();
  if (heads < 1 || inner < 1 || inner % heads != 0)
    fail("the file's metadata: ssm.inner_size: {} is no multiple of ssm.time_step_rank, {}", inner, heads);
  return {{"num_heads", heads},
          {"head_dim", inner / heads},
          {"expand", 2},
          {"state_size", mamba_key(metadata, "ssm", "state_size")},
          {"n_groups", mamba_key(metadata, "ssm", "group_count")}};
}

GgufFamily mamba2_gguf() {
  GgufName bias{"ssm_dt", "mixer.dt_bias"}, rates{"ssm_a", "mixer.A_log", GgufChange::kRateColumn},
      skip{"ssm_d", "mixer.D", GgufChange::kColumn}, norm{"ssm_norm", "mixer.norm", GgufChange::kGroups};
  bias.ending = ".bias", rates.ending = "", skip.ending = "";
  norm.parts = [](const Json& config) { return Mamba2Sizes(config).groups; };
  GgufFamily gguf = mamba_gguf("mamba2", "Mamba2ForCausalLM", {bias, rates, skip, norm});
  gguf_key(gguf.keys, "embedding_length").written.number = 4096;
  gguf_key(gguf.keys, "block_count").written.number = 64;
  gguf.more_keys = mamba2_keys;
  gguf.more_fields = mamba2_fields;
  return gguf;
}

}  // namespace

static Family mamba2_family() { return mamba_record("mamba2", "Mamba2", make_mamba2, mamba2_gguf()); }

const RegisterFamilies kMamba2Families{mamba2_family};

}  // namespace transom
