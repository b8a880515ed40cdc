// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/gguf_names.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace transom {
namespace {

GgufNames t5_names(bool gated) {
  const auto attention = [](std::vector<GgufName>& rules, const char* const(&gguf)[5], const char* const(&names)[5]) {
    for (size_t i = 0; i < 5; ++i) rules.push_back({gguf[i], names[i]});
  };
  std::vector<GgufName> encoder = {{"attn_norm", "layer.0.layer_norm"}, {"ffn_norm", "layer.1.layer_norm"}},
                        decoder = {{"attn_norm", "layer.0.layer_norm"},
                                   {"cross_attn_norm", "layer.1.layer_norm"},
                                   {"ffn_norm", "layer.2.layer_norm"}};
  for (std::vector<GgufName>* rules : {&encoder, &decoder})
    attention(*rules, {"attn_q", "attn_k", "attn_v", "attn_o", "attn_rel_b"},
              {"layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v",
               "layer.0.SelfAttention.o", "layer.0.SelfAttention.relative_attention_bias"});
  attention(decoder, {"cross_attn_q", "cross_attn_k", "cross_attn_v", "cross_attn_o", "cross_attn_rel_b"},
            {"layer.1.EncDecAttention.q", "layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v",
             "layer.1.EncDecAttention.o", "layer.1.EncDecAttention.relative_attention_bias"});
  if (gated) {
    encoder.push_back({"ffn_gate", "layer.1.DenseReluDense.wi_0"});
    decoder.push_back({"ffn_gate", "layer.2.DenseReluDense.wi_0"});
  }
  encoder.push_back({"ffn_up", gated ? "layer.1.DenseReluDense.wi_1" : "layer.1.DenseReluDense.wi"});
  decoder.push_back({"ffn_up", gated ? "layer.2.DenseReluDense.wi_1" : "layer.2.DenseReluDense.wi"});
  encoder.push_back({"ffn_down", "layer.1.DenseReluDense.wo"});
  decoder.push_back({"ffn_down", "layer.2.DenseReluDense.wo"});
  return {{{"token_embd", "shared"},
           {"output", "lm_head"},
           {"enc.output_norm", "encoder.final_layer_norm"},
           {"dec.output_norm", "decoder.final_layer_norm"}},
          {{"enc.blk.", "encoder.block.", std::move(encoder)}, {"dec.blk.", "decoder.block.", std::move(decoder)}}};
}

}  // namespace

const GgufNames& gguf_names(const std::string& architecture, GgufTraits traits) {
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
  const auto of_layers = [](const char* layers, std::vector<GgufName> whole, std::vector<GgufName> rules) {
    return GgufNames{std::move(whole), {{"blk.", layers, std::move(rules)}}};
  };
  const auto decoder = [&](std::vector<GgufName> rules) {
    return of_layers("model.layers.", kWhole, std::move(rules));
  };
  static const std::vector<GgufName> kLayer = joined({kAttention, kGated, kNorms});
  static const std::vector<GgufName> kLlamaLayer =
      changed(kLayer, {{"attn_q", GgufChange::kRotaryPairs}, {"attn_k", GgufChange::kRotaryPairsOfKeys}});
  static const GgufNames kPlain = decoder(kLayer), kLlama = decoder(kLlamaLayer),
                         kMixtral = decoder(joined({kLlamaLayer, {{"ffn_gate_inp", "block_sparse_moe.gate"}}}));
  static const GgufNames kGemma = of_layers("model.layers.", norms_from_one(kWhole), norms_from_one(kLayer));
  static const GgufNames kGemma2 =
      of_layers("model.layers.", norms_from_one(kWhole),
                norms_from_one(joined({kAttention,
                                       kGated,
                                       {{"attn_norm", "input_layernorm"},
                                        {"post_attention_norm", "post_attention_layernorm"},
                                        {"ffn_norm", "pre_feedforward_layernorm"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}}})));
  static const GgufNames kPhi3 =
      decoder(joined({kAttention, kNorms, {{"ffn_up", "mlp.gate_up_proj"}, {"ffn_down", "mlp.down_proj"}}}));
  static const GgufNames kStarcoder =
      decoder(joined({kAttention, kNorms, {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}}}));
  static const GgufNames kGpt2 = of_layers("transformer.h.",
                                           {{"token_embd", "transformer.wte"},
                                            {"position_embd", "transformer.wpe"},
                                            {"output_norm", "transformer.ln_f"},
                                            {"output", "lm_head"}},
                                           {{"attn_norm", "ln_1"},
                                            {"attn_qkv", "attn.c_attn", GgufChange::kTransposed},
                                            {"attn_output", "attn.c_proj", GgufChange::kTransposed},
                                            {"ffn_norm", "ln_2"},
                                            {"ffn_up", "mlp.c_fc", GgufChange::kTransposed},
                                            {"ffn_down", "mlp.c_proj", GgufChange::kTransposed}});
  static const GgufNames kBloom = of_layers("transformer.h.",
                                            {{"token_embd", "transformer.word_embeddings"},
                                             {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                                             {"output_norm", "transformer.ln_f"},
                                             {"output", "lm_head"}},
                                            {{"attn_norm", "input_layernorm"},
                                             {"attn_qkv", "self_attention.query_key_value", GgufChange::kHeadsTogether},
                                             {"attn_output", "self_attention.dense"},
                                             {"ffn_norm", "post_attention_layernorm"},
                                             {"ffn_up", "mlp.dense_h_to_4h"},
                                             {"ffn_down", "mlp.dense_4h_to_h"}});
  static const GgufNames kNeox = of_layers(
      "gpt_neox.layers.",
      {{"token_embd", "gpt_neox.embed_in"}, {"output_norm", "gpt_neox.final_layer_norm"}, {"output", "embed_out"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "attention.query_key_value", GgufChange::kHeadsTogether},
       {"attn_output", "attention.dense"},
       {"ffn_norm", "post_attention_layernorm"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}});
  static const GgufNames kBert = of_layers("encoder.layer.",
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
                                            {"layer_output_norm", "output.LayerNorm"}});
  static const GgufNames kT5 = t5_names(false), kGatedT5 = t5_names(true);
  if (architecture == "llama") return traits.experts ? kMixtral : kLlama;
  if (architecture == "gemma") return kGemma;
  if (architecture == "gemma2" || architecture == "gemma3") return kGemma2;
  if (architecture == "phi3") return kPhi3;
  if (architecture == "starcoder2") return kStarcoder;
  if (architecture == "gpt2") return kGpt2;
  if (architecture == "bloom") return kBloom;
  if (architecture == "gptneox") return kNeox;
  if (architecture == "bert") return kBert;
  if (architecture == "t5" || architecture == "t5encoder") return traits.gated ? kGatedT5 : kT5;
  return kPlain;
}

namespace {

// The rule and the layer behind a name, whichever of the two names a rule has is asked by.
template <typename NameOf, typename StackOf, typename Other>
std::optional<GgufPlace> place(const std::string& from, const GgufNames& names, NameOf name_of, StackOf stack_of,
                               Other other) {
  for (const GgufName& rule : names.whole)
    if (from == name_of(rule)) return GgufPlace{other(nullptr, rule, ""), &rule, -1};
  for (const GgufStack& stack : names.stacks) {
    const std::string layers = stack_of(stack);
    if (!from.starts_with(layers)) continue;
    const size_t dot = from.find('.', layers.size());
    const std::string number = from.substr(layers.size(), dot == from.npos ? dot : dot - layers.size());
    constexpr size_t kMostDigits = 9;
    if (dot == from.npos || number.empty() || number.size() > kMostDigits ||
        number.find_first_not_of("0123456789") != number.npos)
      continue;
    for (const GgufName& rule : stack.rules)
      if (from.substr(dot + 1) == name_of(rule))
        return GgufPlace{other(&stack, rule, number), &rule, std::stoll(number)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GgufPlace> gguf_place(const std::string& module, const GgufNames& names) {
  return place(
      module, names, [](const GgufName& rule) { return rule.name; }, [](const GgufStack& stack) { return stack.name; },
      [](const GgufStack* stack, const GgufName& rule, const std::string& layer) {
        return stack ? stack->gguf + layer + "." + rule.gguf : std::string(rule.gguf);
      });
}

std::optional<GgufPlace> checkpoint_place(const std::string& gguf, const GgufNames& names) {
  return place(
      gguf, names, [](const GgufName& rule) { return rule.gguf; }, [](const GgufStack& stack) { return stack.gguf; },
      [](const GgufStack* stack, const GgufName& rule, const std::string& layer) {
        return stack ? stack->name + layer + "." + rule.name : std::string(rule.name);
      });
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
