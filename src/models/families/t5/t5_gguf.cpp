// SPDX-License-Identifier: Apache-2.0
#include "models/families/t5/t5_gguf.h"

namespace transom {
namespace {

void add_attention(std::vector<GgufName>& rules, const std::string& gguf, const std::string& module) {
  for (const auto& [part, name] :
       {std::pair{"q", "q"}, {"k", "k"}, {"v", "v"}, {"o", "o"}, {"rel_b", "relative_attention_bias"}})
    rules.push_back({gguf + part, module + name});
}

// wi, or the two of T5 1.1, which a gate stands beside.
void add_feed_forward(std::vector<GgufName>& rules, const std::string& layer) {
  rules.push_back({"ffn_norm", layer + "layer_norm"});
  rules.push_back({"ffn_gate", layer + "DenseReluDense.wi_0"});
  rules.push_back({"ffn_up", layer + "DenseReluDense.wi_1", GgufChange::kNone, "ffn_gate"});
  rules.push_back({"ffn_up", layer + "DenseReluDense.wi"});
  rules.push_back({"ffn_down", layer + "DenseReluDense.wo"});
}

}  // namespace

GgufFamily t5_gguf() {
  std::vector<GgufName> encoder{{"attn_norm", "layer.0.layer_norm"}}, decoder = encoder;
  for (std::vector<GgufName>* rules : {&encoder, &decoder}) add_attention(*rules, "attn_", "layer.0.SelfAttention.");
  decoder.push_back({"cross_attn_norm", "layer.1.layer_norm"});
  add_attention(decoder, "cross_attn_", "layer.1.EncDecAttention.");
  add_feed_forward(encoder, "layer.1.");
  add_feed_forward(decoder, "layer.2.");
  return {.architecture = "t5",
          .model_class = "T5ForConditionalGeneration",
          .activations = {"relu", "gated-gelu"},
          .names = {.whole = {{"token_embd", "shared"},
                              {"output", "lm_head"},
                              {"enc.output_norm", "encoder.final_layer_norm"},
                              {"dec.output_norm", "decoder.final_layer_norm"}},
                    .stacks = {{"enc.blk.", "encoder.block.", std::move(encoder)},
                               {"dec.blk.", "decoder.block.", std::move(decoder)}}},
          .encoder_architecture = "t5encoder",
          .encoder_class = "T5EncoderModel"};
}

}  // namespace transom
