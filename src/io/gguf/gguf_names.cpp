// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/gguf_names.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace transom {

const GgufNames& gguf_names(const std::string& architecture, bool experts) {
  static const std::vector<GgufName> kAttention = {
      {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}, {"attn_output", "self_attn.o_proj"},
      {"attn_qkv", "self_attn.qkv_proj"}};
  static const std::vector<GgufName> kGated = {
      {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
  static const std::vector<GgufName> kWhole = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  static const std::vector<GgufName> kNorms = {{"attn_norm", "input_layernorm"},
                                               {"ffn_norm", "post_attention_layernorm"}};
  const auto joined = [](std::initializer_list<std::vector<GgufName>> lists) {
    std::vector<GgufName> all;
    for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  const auto changed = [](std::vector<GgufName> rules,
                          std::initializer_list<std::pair<std::string_view, GgufChange>> changes) {
    for (GgufName& rule : rules)
      for (const auto& [name, change] : changes)
        if (rule.gguf == name) rule.change = change;
    return rules;
  };
  const auto norms_from_one = [](std::vector<GgufName> rules) {
    for (GgufName& rule : rules)
      if (std::string_view(rule.gguf).ends_with("norm")) rule.change = GgufChange::kOneMore;
    return rules;
  };
  static const GgufNames kPlain{"model.layers.", kWhole, joined({kAttention, kGated, kNorms})};
  static const GgufNames kLlama{
      "model.layers.", kWhole,
      changed(kPlain.of_layer, {{"attn_q", GgufChange::kRotaryPairs}, {"attn_k", GgufChange::kRotaryPairsOfKeys}})};
  static const GgufNames kMixtral{"model.layers.", kWhole,
                                  joined({kLlama.of_layer, {{"ffn_gate_inp", "block_sparse_moe.gate"}}})};
  static const GgufNames kGemma{"model.layers.", norms_from_one(kWhole), norms_from_one(kPlain.of_layer)};
  static const GgufNames kGemma2{"model.layers.", norms_from_one(kWhole),
                                 norms_from_one(joined({kAttention,
                                                        kGated,
                                                        {{"attn_norm", "input_layernorm"},
                                                         {"post_attention_norm", "post_attention_layernorm"},
                                                         {"ffn_norm", "pre_feedforward_layernorm"},
                                                         {"post_ffw_norm", "post_feedforward_layernorm"}}}))};
  static const GgufNames kPhi3{
      "model.layers.", kWhole,
      joined({kAttention, kNorms, {{"ffn_up", "mlp.gate_up_proj"}, {"ffn_down", "mlp.down_proj"}}})};
  static const GgufNames kStarcoder{"model.layers.", kWhole,
                                    joined({kAttention, kNorms, {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}}})};
  static const GgufNames kGpt2{"transformer.h.",
                               {{"token_embd", "transformer.wte"},
                                {"position_embd", "transformer.wpe"},
                                {"output_norm", "transformer.ln_f"},
                                {"output", "lm_head"}},
                               {{"attn_norm", "ln_1"},
                                {"attn_qkv", "attn.c_attn", GgufChange::kTransposed},
                                {"attn_output", "attn.c_proj", GgufChange::kTransposed},
                                {"ffn_norm", "ln_2"},
                                {"ffn_up", "mlp.c_fc", GgufChange::kTransposed},
                                {"ffn_down", "mlp.c_proj", GgufChange::kTransposed}}};
  static const GgufNames kBloom{"transformer.h.",
                                {{"token_embd", "transformer.word_embeddings"},
                                 {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                                 {"output_norm", "transformer.ln_f"},
                                 {"output", "lm_head"}},
                                {{"attn_norm", "input_layernorm"},
                                 {"attn_qkv", "self_attention.query_key_value", GgufChange::kHeadsTogether},
                                 {"attn_output", "self_attention.dense"},
                                 {"ffn_norm", "post_attention_layernorm"},
                                 {"ffn_up", "mlp.dense_h_to_4h"},
                                 {"ffn_down", "mlp.dense_4h_to_h"}}};
  static const GgufNames kNeox{
      "gpt_neox.layers.",
      {{"token_embd", "gpt_neox.embed_in"}, {"output_norm", "gpt_neox.final_layer_norm"}, {"output", "embed_out"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "attention.query_key_value", GgufChange::kHeadsTogether},
       {"attn_output", "attention.dense"},
       {"ffn_norm", "post_attention_layernorm"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}}};
  static const GgufNames kBert{"encoder.layer.",
                               {{"token_embd", "embeddings.word_embeddings"},
                                {"position_embd", "embeddings.position_embeddings"},
                                {"token_types", "embeddings.token_type_embeddings"},
                                {"token_embd_norm", "embeddings.LayerNorm"}},
                               {{"attn_q", "attention.self.query"},
                                {"attn_k", "attention.self.key"},
                                {"attn_v", "attention.self.value"},
                                {"attn_output", "attention.output.dense"},
                                {"attn_output_norm", "attention.output.LayerNorm"},
                                {"ffn_up", "intermediate.dense"},
                                {"ffn_down", "output.dense"},
                                {"layer_output_norm", "output.LayerNorm"}}};
  if (architecture == "llama") return experts ? kMixtral : kLlama;
  if (architecture == "gemma") return kGemma;
  if (architecture == "gemma2" || architecture == "gemma3") return kGemma2;
  if (architecture == "phi3") return kPhi3;
  if (architecture == "starcoder2") return kStarcoder;
  if (architecture == "gpt2") return kGpt2;
  if (architecture == "bloom") return kBloom;
  if (architecture == "gptneox") return kNeox;
  if (architecture == "bert") return kBert;
  return kPlain;
}

std::vector<int64_t> gguf_places_of_rows(GgufChange change, int64_t rows, int64_t heads, int64_t key_heads,
                                         const std::string& where) {
  if (change == GgufChange::kHeadsTogether) {
    if (heads <= 0 || rows % (3 * heads) != 0) fail("{}: {} rows are no 3 times {} heads", where, rows, heads);
    const int64_t d = rows / (3 * heads);
    std::vector<int64_t> places;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < d; ++i) places.push_back((part * heads + h) * d + i);
    return places;
  }
  if (change != GgufChange::kRotaryPairs && change != GgufChange::kRotaryPairsOfKeys) return {};
  const int64_t count = change == GgufChange::kRotaryPairs ? heads : key_heads;
  if (count <= 0 || rows % (2 * count) != 0) fail("{}: {} rows are no {} heads of pairs", where, rows, count);
  const int64_t d = rows / count;
  std::vector<int64_t> places;
  for (int64_t h = 0; h < count; ++h)
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t i = 0; i < d / 2; ++i) places.push_back(h * d + 2 * i + half);
  return places;
}

}  // namespace transom
