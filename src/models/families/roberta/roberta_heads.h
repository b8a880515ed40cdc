// SPDX-License-Identifier: Apache-2.0
// The heads of RoBERTa (Liu et al., 2019), which MPNet took over. B batch, T time, D hidden, V vocabulary.
#pragma once

#include "models/shared/encoder_model.h"

namespace transom {

// A transform and a decoder over the vocabulary: [B, T, D] -> [B, T, V]. `scope` is that of the model.
class RobertaLMHead {
 public:
  RobertaLMHead(const Scope& scope, const BertConfig& c, const Embedding& words)
      : dense_(scope / "lm_head" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layer_norm_(scope / "lm_head" / "layer_norm", c.hidden_size, c.layer_norm_eps),
        decoder_(scope / "lm_head", c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight", words,
                 c.tie_word_embeddings, c.hidden_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return decoder_(layer_norm_(gelu(dense_(hidden, context)), context), context);
  }

 private:
  Linear dense_;
  LayerNorm layer_norm_;
  TiedDecoder decoder_;
};

// A class for each row, by two layers on the first token.
template <typename Body>
class RobertaSequenceClassifier : public EncoderModel<Body> {
 public:
  RobertaSequenceClassifier(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        dropout_(this->config_.classifier_dropout),
        dense_(scope / "classifier" / "dense", this->config_.hidden_size, this->config_.hidden_size,
               this->config_.new_weights()),
        out_proj_(scope / "classifier" / "out_proj", this->config_.hidden_size, this->config_.num_labels,
                  this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor x = tanh(dense_(dropout_(first_token(hidden), context), context));  // [B, D]
      return sequence_classification_outputs(out_proj_(dropout_(x, context), context), inputs,
                                             this->config_.problem_type, context);
    });
  }

 private:
  Dropout dropout_;
  Linear dense_, out_proj_;
};

// One of several rows, by a score of each row's pooled first token.
template <typename Body>
class RobertaMultipleChoice : public EncoderModel<Body> {
 public:
  RobertaMultipleChoice(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        pooler_(scope / Body::kPrefix / "pooler", this->config_),
        dropout_(this->config_.hidden_dropout_prob),
        classifier_(scope / "classifier", this->config_.hidden_size, 1, this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return this->with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooler_(hidden, context), context), context), choices, inputs,
                            context);
    });
  }

 private:
  BertPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace transom
