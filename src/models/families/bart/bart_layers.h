// SPDX-License-Identifier: Apache-2.0
// The layers of the transformer (Vaswani et al., 2017) under the names that BART and its relatives have for them.
// B batch, T time, S time of the source, D hidden, H heads.
#pragma once

#include "models/shared/encoder_decoder.h"

namespace transom {

// What sets the relatives of BART apart.
struct BartVariant {
  const char* defaults = "{}";  // where the configuration is silent
  bool norm_before = false;     // of attention and feed-forward layer; else behind the sum
  bool key_bias = true;
  bool embedding_norm = true;  // layernorm_embedding
  bool final_norm = false;     // layer_norm behind each stack
  bool logits_bias = true;     // final_logits_bias
  bool wraps_labels = false;   // the decoder starts with the last token of its text (mBART: the language)
  enum class Positions {
    kLearned,      // from row 2 of a table
    kTable,        // sines and cosines, which checkpoints may hold
    kPastPadding,  // sines and cosines, counted from the padding id; padding has none
  } positions = Positions::kLearned;
};

struct BartConfig : BartVariant {
  explicit BartConfig(const Config& config, const BartVariant& variant = {});
  int64_t vocab_size, d_model, encoder_layers, encoder_attention_heads, encoder_ffn_dim, decoder_layers,
      decoder_attention_heads, decoder_ffn_dim, max_position_embeddings;
  int64_t pad_token_id, eos_token_id, decoder_start_token_id;
  double dropout, attention_dropout, activation_dropout, classifier_dropout, encoder_layerdrop, decoder_layerdrop,
      init_std;
  std::string activation_function, problem_type;
  bool scale_embedding, tie_word_embeddings;
  int64_t num_labels;
  int64_t source_width = 0;  // of the states that a decoder reads (TrOCR); 0: d_model

  Linear::Options new_weights() const { return {.deviation = init_std}; }
  double embed_scale() const;

 private:
  struct Read {};
  BartConfig(const Config& config, const BartVariant& variant, Read);
};

class BartAttention {
 public:
  // `source_width`: of what keys and values are made of; 0: d_model.
  BartAttention(const Scope& scope, const BartConfig& config, int64_t heads, int64_t source_width = 0);
  // x [B, T, D] sees itself, with a mask that broadcasts to [B, H, T, T].
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;
  // x sees itself up to each place; with a cache also what came before.
  Tensor causal(int64_t layer, const Tensor& x, const DecoderInputs& in, ForwardContext& context) const;
  // x sees the source.
  Tensor across(int64_t layer, const Tensor& x, const EncodedSource& source, ForwardContext& context) const;

 private:
  Tensor heads(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }
  std::string path_;
  int64_t heads_;
  double scale_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
  Dropout dropout_;
};

class BartFeedForward {
 public:
  BartFeedForward(const Scope& scope, const BartConfig& config, int64_t width);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string activation_;
  Linear fc1_, fc2_;
  Dropout activation_dropout_;
};

class BartEncoderLayer {
 public:
  BartEncoderLayer(const Scope& scope, const BartConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;  // [B, S, D] -> [B, S, D]

 private:
  std::string path_;
  bool norm_before_;
  BartAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  BartFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
  LayerDrop layerdrop_;
};

class BartDecoderLayer {
 public:
  BartDecoderLayer(const Scope& scope, const BartConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const DecoderInputs& in, const EncodedSource& source,
                    ForwardContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  std::string path_;
  int64_t layer_;
  bool norm_before_;
  BartAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  BartAttention encoder_attn_;
  LayerNorm encoder_attn_layer_norm_;
  BartFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
  LayerDrop layerdrop_;
};

}  // namespace transom
