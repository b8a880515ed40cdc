// SPDX-License-Identifier: Apache-2.0
#include "models/families/mamba/mamba_parts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/nn/recurrence/state_layers.h"
#include "models/shared/record_parts.h"

namespace transom {
namespace {

constexpr const char* kMambaPrefix = "backbone";

struct MambaBlock {
  std::string path;
  RmsNorm norm;
  MambaMixer mixer;
};

class MambaBody : public Decoder {
 public:
  MambaBody(const MambaConfig& config, const Scope& scope, const MakeMambaMixer& mixer)
      : c_(config),
        embeddings_(scope / "embeddings", c_.vocab_size, c_.hidden_size, c_.initializer_range),
        norm_f_(scope / "norm_f", c_.hidden_size, c_.layer_norm_epsilon) {
    for (int64_t i = 0; i < c_.layers; ++i) {
      const Scope layer = scope / "layers" / i;
      blocks_.push_back(
          {layer.path(), RmsNorm(layer / "norm", c_.hidden_size, c_.layer_norm_epsilon), mixer(layer / "mixer", i)});
    }
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kNone);
    Tensor x = in.input_ids.defined() ? embeddings_(in.input_ids, context) : in.inputs_embeds;
    const DType dtype = x.dtype();
    // Hidden states are what each block has made, then the norm of the last, as Transformers gives them.
    DecoderOutput output;
    for (const MambaBlock& block : blocks_) {
      const auto call = [&](const Tensor& y) { return through(block, y, dtype, in.attention_mask, context); };
      if (context.gradient_checkpointing && context.training)
        x = checkpoint([&](const std::vector<Tensor>& y) { return call(y[0]); }, {x});
      else x = call(x);
      if (context.output_hidden_states) output.hidden_states.push_back(x);
    }
    output.last_hidden_state = norm_f_(cast(x, dtype), context);
    if (context.output_hidden_states) output.hidden_states.push_back(output.last_hidden_state);
    return output;
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.hidden_size,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .pad_token_id = c_.pad_token_id,
            .texts_in_rows = false};
  }
  const Embedding& word_embeddings() const override { return embeddings_; }
  std::vector<std::string> input_names() const override { return {"input_ids", "attention_mask", "inputs_embeds"}; }

 private:
  Tensor through(const MambaBlock& block, const Tensor& x, DType dtype, const Tensor& mask,
                 ForwardContext& context) const {
    const ModuleScope module(block.path);
    const Tensor mixed = block.mixer(block.norm(cast(x, dtype), context), mask, context);
    return (c_.residual_in_fp32 ? cast(x, DType::kFloat32) : x) + mixed;
  }

  MambaConfig c_;
  Embedding embeddings_;
  std::vector<MambaBlock> blocks_;
  RmsNorm norm_f_;
};

}  // namespace

MambaConfig::MambaConfig(const Config& config, bool tied)
    : vocab_size(config.get_int("vocab_size", 50280)),
      hidden_size(config.get_int("hidden_size", 768)),
      state_size(config.get_int("state_size", 16)),
      layers(config.get_int("num_hidden_layers", 32)),
      // What config.json says of it overrules what follows from the width.
      intermediate_size(config.get_int(
          "intermediate_size", static_cast<int64_t>(config.get_float("expand", 2) * static_cast<double>(hidden_size)))),
      conv_kernel(config.get_int("conv_kernel", 4)),
      layer_norm_epsilon(config.get_float("layer_norm_epsilon", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.1)),
      use_bias(config.get_bool("use_bias", false)),
      use_conv_bias(config.get_bool("use_conv_bias", true)),
      residual_in_fp32(config.get_bool("residual_in_fp32", true)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", tied)),
      rescales_residual(config.get_bool("rescale_prenorm_residual", false)),
      hidden_act(config.get_string("hidden_act", "silu")),
      time_step_min(config.get_float("time_step_min", 0.001)),
      time_step_max(config.get_float("time_step_max", 0.1)),
      time_step_floor(config.get_float("time_step_floor", 1e-4)) {
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  for (const int64_t extent : {vocab_size, hidden_size, state_size, intermediate_size})
    if (extent < 1) fail("{}: expected widths above 0, found {}", config.where(), extent);
  // Which program computes the scan, names of the same in the files of the authors, and how many heads there are where
  // that follows from the widths.
  for (const char* key : {"expand", "use_mambapy", "use_falcon_mambapy", "use_associative_scan", "d_inner", "d_model",
                          "n_layer", "fused_add_norm", "rms_norm", "ssm_cfg", "pad_vocab_size_multiple",
                          "attn_layer_idx", "attn_cfg", "norm_before_gate"})
    config.has(key);
}

std::vector<float> MambaConfig::step_biases(int64_t count) const {
  if (count < 0 || count > kMostInitialValues)
    fail("config.json: {} steps in a layer (num_heads or the inner width) are more than this takes", count);
  std::vector<float> biases;
  for (int64_t i = 0; i < count; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    const double step =
        std::max(std::exp(std::log(time_step_min) + share * (std::log(time_step_max) - std::log(time_step_min))),
                 time_step_floor);
    biases.push_back(static_cast<float>(step + std::log(-std::expm1(-step))));
  }
  return biases;
}

double MambaConfig::output_deviation() const {
  const double deviation = 1 / std::sqrt(3 * static_cast<double>(intermediate_size));
  return rescales_residual ? deviation / std::sqrt(static_cast<double>(layers)) : deviation;
}

std::unique_ptr<Decoder> make_mamba_body(const MambaConfig& config, const Scope& scope, const MakeMambaMixer& mixer) {
  return std::make_unique<MambaBody>(config, scope, mixer);
}

Json mamba_key(const Json& metadata, const char* part, const char* key) {
  const auto own = metadata.find(part);
  if (own == metadata.end() || !own->is_object() || !own->contains(key) || !(*own)[key].is_number())
    fail("the file's metadata: expected a number under {}.{}, found none", part, key);
  return (*own)[key];
}

int64_t mamba_count(const Json& config, const char* field, int64_t otherwise) {
  const auto found = config.find(field);
  if (found == config.end() || !found->is_number_integer()) return otherwise;
  const auto count = found->get<int64_t>();
  constexpr int64_t kLargest = int64_t{1} << 30;
  if (count < 0 || count > kLargest)
    fail("config.json: {}: expected a number from 0 to {}, found {}", field, kLargest, count);
  return count;
}

GgufFamily mamba_gguf(const std::string& architecture, const std::string& model_class, std::vector<GgufName> mixer) {
  constexpr auto kNumber = GgufUsual::Is::kNumber;
  std::vector<GgufName> rules{{"attn_norm", "norm"},
                              {"ssm_in", "mixer.in_proj"},
                              {"ssm_conv1d", "mixer.conv1d", GgufChange::kSqueezed},
                              {"ssm_out", "mixer.out_proj"}};
  for (GgufName& rule : mixer) rules.push_back(std::move(rule));
  const std::string body = std::string(kMambaPrefix) + ".";
  return {
      .architecture = architecture,
      .model_class = model_class,
      .activations = {"silu", "swish"},
      .names = {.whole = {{"token_embd", body + "embeddings"}, {"output_norm", body + "norm_f"}, {"output", "lm_head"}},
                .stacks = {{"blk.", body + "layers.", std::move(rules)}}},
      .keys = {{.key = "block_count", .field = "num_hidden_layers", .written = {kNumber, 32}},
               {.key = "embedding_length", .field = "hidden_size", .written = {kNumber, 768}},
               // Readers ask for these, which nothing here has: the longest text, a feed-forward layer, heads.
               {.key = "context_length", .field = "", .written = {kNumber, 1 << 20}},
               {.key = "feed_forward_length", .field = "", .written = {kNumber, 0}},
               {.key = "attention.head_count", .field = "", .written = {kNumber, 0}},
               {.key = "vocab_size", .field = "vocab_size", .read = {GgufUsual::Is::kNotRead}},
               {.key = "ssm.conv_kernel", .field = "conv_kernel", .written = {kNumber, 4}},
               {.key = "attention.layer_norm_rms_epsilon",
                .field = "layer_norm_epsilon",
                .kind = GgufKey::Kind::kNumber,
                .written = {kNumber, 1e-5}}},
      .fixed = {{"use_bias", "false"}, {"use_conv_bias", "true"}},
      .stands_for = R"({"hidden_act": "silu"})"};
}

Family mamba_record(const std::string& model_type, const std::string& name, MakeDecoder body, GgufFamily gguf) {
  const auto architecture = [&](const char* kind, DecoderHead head) {
    return Architecture{name + kind, head_of(head, {}), [body, head](const Config& config, const Scope& scope) {
                          return make_decoder_model(config, scope, body, kMambaPrefix, head);
                        }};
  };
  return {
      .model_type = model_type,
      .base_prefix = kMambaPrefix,
      .architectures = {architecture("Model", DecoderHead::kNone), architecture("ForCausalLM", DecoderHead::kCausalLM)},
      .inputs = text_inputs(),
      .processors =
          {.tokenizer = "GPTNeoX", .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = std::move(gguf), .keras = none, .flax = none},
      .planning = {.fused_attention = true}};
}

}  // namespace transom
