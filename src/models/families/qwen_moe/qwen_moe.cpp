// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 3 with a mixture of experts (Yang et al., 2024 and 2025): the attention of Qwen 2 and 3, and experts in
// the layers that decoder_sparse_step and mlp_only_layers leave. Those of Qwen 2 have one more that every token goes
// through.
#include <algorithm>

#include "base/error.h"
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kQwenMoePrefix[] = "model",
               kQwenMoeAnswersPrefix[] = "transformer";  // as Qwen3MoeForQuestionAnswering has it

// Which layers have experts.
std::vector<bool> sparse_layers(const Config& config, int64_t count) {
  const int64_t step = config.get_int("decoder_sparse_step", 1);
  if (step < 1) fail("{}: decoder_sparse_step: expected a number above 0, found {}", config.where(), step);
  const std::vector<int64_t> without = config.get_ints("mlp_only_layers");
  std::vector<bool> layers;
  for (int64_t i = 0; i < count; ++i)
    layers.push_back((i + 1) % step == 0 && std::find(without.begin(), without.end(), i) == without.end());
  return layers;
}

// `config` has the family's defaults; num_experts may be called num_local_experts, which then counts.
void add_experts(const Config& config, RopeDecoderConfig& c) {
  const int64_t experts = config.get_int("num_local_experts", config.get_int("num_experts"));
  if (experts == 0) return;
  c.experts = {.experts = experts,
               .experts_per_token = config.get_int("num_experts_per_tok"),
               .width = c.hidden_size,
               .intermediate_width = config.get_int("moe_intermediate_size"),
               .activation = c.hidden_act,
               .deviation = c.initializer_range,
               .auxiliary_weight =
                   config.get_bool("output_router_logits", false) ? config.get_float("router_aux_loss_coef", 0.001) : 0,
               .names = gated_expert_names(),
               .shares_sum_to_one = config.get_bool("norm_topk_prob", false),
               .layers = sparse_layers(config, c.num_hidden_layers)};
}

std::unique_ptr<Decoder> make_qwen2_moe(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
      "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
      "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
      "shared_expert_intermediate_size": 5632})");
  RopeDecoderConfig c(config);
  c.query_key_value_bias = config.get_bool("qkv_bias", true);
  const bool uses_window = config.get_bool("use_sliding_window", false);
  const auto types = c.layer_types(config, [](const Config& all, int64_t layer) {
    return all.get_bool("use_sliding_window", false) && layer % 2 == 0 && layer < all.get_int("max_window_layers", 28);
  });
  c.slide_where(config, types, uses_window ? int_or_none(config, "sliding_window", 4096) : 0);
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  add_experts(config, c);
  if (c.experts) c.experts->shared_width = config.get_int("shared_expert_intermediate_size");
  return make_rope_decoder(c, scope);
}

std::unique_ptr<Decoder> make_qwen3_moe(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768,
      "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})");
  RopeDecoderConfig c(config);
  c.query_key_value_bias = c.output_bias = config.get_bool("attention_bias", false);
  c.head_norms = true;
  if (config.get_bool("use_sliding_window", false))
    c.sliding_windows.assign(c.sliding_windows.size(), int_or_none(config, "sliding_window", 4096));
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  add_experts(config, c);
  return make_rope_decoder(c, scope);
}

// All layers have experts there: what stands in others has no name.
GgufFamily gguf_of_experts(const std::string& architecture, const std::string& model_class) {
  constexpr auto kNumber = GgufUsual::Is::kNumber;
  GgufFamily gguf = gguf_decoder(architecture, model_class);
  gguf.names =
      gguf_decoder_names({gguf_attention_names(), gguf_norm_names(),
                          gguf_expert_names("mlp.gate", "mlp.experts.*.", {"gate_proj", "down_proj", "up_proj"})});
  gguf.stands_for = R"({"hidden_act": "silu", "use_sliding_window": false})";
  for (const GgufKey& key : gguf_expert_keys("num_experts", 128, 8)) gguf.keys.push_back(key);
  gguf_key(gguf.keys, "expert_count").older = {"num_local_experts"};
  gguf.keys.push_back(
      {.key = "expert_feed_forward_length", .field = "moe_intermediate_size", .written = {kNumber, 768}});
  gguf_key(gguf.keys, "attention.head_count_kv").written = {kNumber, 4};
  gguf_key(gguf.keys, "context_length").written = {kNumber, 32768};
  gguf_key(gguf.keys, "feed_forward_length").written = {kNumber, 6144};
  return gguf;
}

GgufFamily qwen2_moe_gguf() {
  constexpr auto kNumber = GgufUsual::Is::kNumber;
  GgufFamily gguf = gguf_of_experts("qwen2moe", "Qwen2MoeForCausalLM");
  for (const GgufName& name :
       std::initializer_list<GgufName>{{"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufChange::kRow},
                                       {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                       {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
                                       {"ffn_up_shexp", "mlp.shared_expert.up_proj"}})
    gguf.names.stacks[0].rules.push_back(name);
  for (const auto& [key, usual] : {std::pair{"attention.head_count_kv", 16.0},
                                   {"feed_forward_length", 5632.0},
                                   {"expert_count", 60.0},
                                   {"expert_used_count", 4.0},
                                   {"expert_feed_forward_length", 1408.0}})
    gguf_key(gguf.keys, key).written = {kNumber, usual};
  gguf.keys.push_back({.key = "expert_shared_feed_forward_length",
                       .field = "shared_expert_intermediate_size",
                       .written = {kNumber, 5632}});
  gguf.biases = {{"qkv_bias", "attn_q"}};
  gguf.fixed = {{"norm_topk_prob", "false"}};  // as llama.cpp computes them
  return gguf;
}

GgufFamily qwen3_moe_gguf() {
  GgufFamily gguf = gguf_of_experts("qwen3moe", "Qwen3MoeForCausalLM");
  gguf.biases = {{"attention_bias", "attn_q"}};
  gguf.fixed = {{"norm_topk_prob", "true", "false"}};  // as llama.cpp computes them
  return gguf;
}

}  // namespace

static Family qwen2_moe_family() {
  return {.model_type = "qwen2_moe",
          .base_prefix = kQwenMoePrefix,
          .architectures = answering_decoder_architectures<make_qwen2_moe, kQwenMoePrefix, kQwenMoePrefix>("Qwen2Moe"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Qwen2",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = qwen2_moe_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}
static Family qwen3_moe_family() {
  return {.model_type = "qwen3_moe",
          .base_prefix = kQwenMoePrefix,
          .architectures =
              answering_decoder_architectures<make_qwen3_moe, kQwenMoePrefix, kQwenMoeAnswersPrefix>("Qwen3Moe"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Qwen2",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = qwen3_moe_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kQwenMoeFamilies{qwen2_moe_family, qwen3_moe_family};

}  // namespace transom
