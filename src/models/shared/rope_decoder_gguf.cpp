// SPDX-License-Identifier: Apache-2.0
#include "models/shared/rope_decoder_gguf.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

namespace {
constexpr auto kNumber = GgufUsual::Is::kNumber, kKey = GgufUsual::Is::kKey, kNotRead = GgufUsual::Is::kNotRead;
}  // namespace

std::vector<GgufName> gguf_attention_names() {
  return {{"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
          {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}, {"attn_output", "self_attn.o_proj"},
          {"attn_qkv", "self_attn.qkv_proj"}};
}

std::vector<GgufName> gguf_gated_names() {
  return {{"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
}

std::vector<GgufName> gguf_norm_names() {
  return {{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
}

std::vector<GgufName> gguf_expert_names(const std::string& router, const std::string& expert,
                                        std::initializer_list<std::string> gate_down_up) {
  std::vector<GgufName> names{{"ffn_gate_inp", router}};
  const std::string* module = gate_down_up.begin();
  for (const char* gguf : {"ffn_gate_exps", "ffn_down_exps", "ffn_up_exps"})
    names.push_back({gguf, expert + *module++, GgufChange::kExperts});
  return names;
}

GgufNames gguf_decoder_names(std::initializer_list<std::vector<GgufName>> layer) {
  std::vector<GgufName> rules;
  for (const std::vector<GgufName>& names : layer) rules.insert(rules.end(), names.begin(), names.end());
  return {.whole = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
          .stacks = {{"blk.", "model.layers.", std::move(rules)}}};
}

GgufNames gguf_llama_names() {
  std::vector<GgufName> attention = gguf_attention_names();
  for (GgufName& name : attention) {
    if (name.gguf == "attn_q") name.change = GgufChange::kRotaryPairs;
    if (name.gguf == "attn_k") name.change = GgufChange::kRotaryPairsOfKeys;
  }
  return gguf_decoder_names({attention, gguf_gated_names(), gguf_norm_names()});
}

std::vector<GgufKey> gguf_decoder_keys() {
  const GgufUsual head_width{kKey, 1, "embedding_length", "attention.head_count"};
  return {{.key = "block_count", .field = "num_hidden_layers"},
          {.key = "context_length", .field = "max_position_embeddings", .written = {kNumber, 2048}},
          {.key = "embedding_length", .field = "hidden_size"},
          {.key = "feed_forward_length", .field = "intermediate_size", .written = {kKey, 4, "embedding_length"}},
          {.key = "attention.head_count", .field = "num_attention_heads"},
          {.key = "vocab_size", .field = "vocab_size", .read = {kNotRead}},
          {.key = "attention.layer_norm_rms_epsilon",
           .field = "rms_norm_eps",
           .kind = GgufKey::Kind::kNumber,
           .written = {kNumber, 1e-6}},
          {.key = "attention.head_count_kv",
           .field = "num_key_value_heads",
           .written = {kKey, 1, "attention.head_count"},
           .read = {kKey, 1, "attention.head_count"}},
          {.key = "attention.key_length", .field = "head_dim", .written = head_width, .read = head_width},
          {.key = "attention.value_length", .field = "head_dim", .written = head_width, .read = {kNotRead}}};
}

std::vector<GgufKey> gguf_expert_keys(const std::string& count_field, double count, double used) {
  return {{.key = "expert_count", .field = count_field, .written = {kNumber, count}},
          {.key = "expert_used_count", .field = "num_experts_per_tok", .written = {kNumber, used}}};
}

GgufKey& gguf_key(std::vector<GgufKey>& keys, std::string_view key) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const GgufKey& each) { return each.key == key; });
  if (found == keys.end()) fail(ErrorKind::kInternal, "a family's keys of GGUF: {} is not among them", key);
  return *found;
}

GgufFamily gguf_decoder(std::string architecture, std::string model_class) {
  return {.architecture = std::move(architecture),
          .model_class = std::move(model_class),
          .activations = {"silu", "swish"},
          .names = gguf_decoder_names({gguf_attention_names(), gguf_gated_names(), gguf_norm_names()}),
          .keys = gguf_decoder_keys(),
          .rotary = GgufRotary{},
          .stands_for = R"({"hidden_act": "silu"})"};
}

}  // namespace transom
