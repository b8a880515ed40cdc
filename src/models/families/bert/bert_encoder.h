// SPDX-License-Identifier: Apache-2.0
// The encoder of BERT (Devlin et al., 2018), which BERT, RoBERTa and their kin share: post-norm blocks of
// self-attention and a feed-forward layer. Members are named as in the checkpoint. B batch, T time, D hidden, H heads.
#pragma once

#include <optional>
#include <vector>

#include "files/config/config.h"
#include "models/nn/attention/attention.h"
#include "models/shared/encoder_body.h"

namespace transom {

struct BertConfig {
  // `reads_source`: of a decoder that reads what an encoder saw (add_cross_attention).
  explicit BertConfig(const Config& config, bool reads_source = false);
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings,
      type_vocab_size;
  std::optional<int64_t> pad_token_id;
  double hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout, layer_norm_eps, initializer_range;
  std::string hidden_act, problem_type;
  bool tie_word_embeddings, is_decoder;  // is_decoder: a token sees none behind it
  int64_t num_labels;

  // The same with another hidden width, for embeddings that have one of their own.
  BertConfig with_width(int64_t width) const {
    BertConfig result = *this;
    result.hidden_size = width;
    return result;
  }
  Linear::Options new_weights() const { return {.deviation = initializer_range}; }
};

class BertEmbeddings {
 public:
  BertEmbeddings(const Scope& scope, const BertConfig& config, bool positions_after_padding = false);
  // input_ids, position_ids [B, T] or [1, T]; token types empty: all 0. -> [B, T, D]
  Tensor operator()(const Tensor& input_ids, const Tensor& inputs_embeds, const Tensor& token_type_ids,
                    const Tensor& position_ids, ForwardContext& context) const;

  Embedding word_embeddings, position_embeddings, token_type_embeddings;

 private:
  LayerNorm layer_norm_;
  Dropout dropout_;
};

// Attention of a text to itself: [B, T, D] -> [B, T, D], what it read added and normed. `scope` is that of a layer.
class BertSelfAttention {
 public:
  BertSelfAttention(const Scope& scope, const BertConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;

 private:
  std::string path_;
  int64_t layer_, heads_;
  bool causal_;
  Linear query_, key_, value_, output_;
  LayerNorm norm_;
  Dropout attention_dropout_, dropout_;
};

class BertFeedForward {
 public:
  BertFeedForward(const Scope& scope, const BertConfig& config);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  std::string activation_;
  Linear intermediate_, output_;
  LayerNorm norm_;
  Dropout dropout_;
};

class BertLayer {
 public:
  BertLayer(const Scope& scope, const BertConfig& config, int64_t layer)
      : attention_(scope, config, layer), feed_forward_(scope, config) {}
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    return feed_forward_(attention_(x, mask, context), context);
  }

 private:
  BertSelfAttention attention_;
  BertFeedForward feed_forward_;
};

// The checked inputs of such a body; with is_decoder, a cache may hold earlier tokens.
EncoderInputs bert_inputs(const NamedTensors& inputs, const BertConfig& config, bool positions_after_padding,
                          ForwardContext& context);

// The body with its embeddings. RoBERTa counts positions from its padding id. Families derive from it, and add kPrefix
// (see encoder_model.h).
class BertEncoder {
 public:
  using Settings = BertConfig;
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  BertEncoder(const Scope& scope, const BertConfig& config, bool positions_after_padding);
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;
  const Embedding& word_embeddings() const { return embeddings_.word_embeddings; }

 private:
  BertConfig config_;
  bool positions_after_padding_;
  BertEmbeddings embeddings_;
  std::vector<BertLayer> layers_;
};

// tanh of a dense layer on the first token: [B, T, D] -> [B, D]
class BertPooler {
 public:
  BertPooler(const Scope& scope, const BertConfig& config)
      : dense_(scope / "dense", config.hidden_size, config.hidden_size, config.new_weights()) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return tanh(dense_(squeeze(slice(hidden, 1, 0, 1), 1), context));
  }

 private:
  Linear dense_;
};

}  // namespace transom
