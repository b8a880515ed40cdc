// SPDX-License-Identifier: Apache-2.0
// BERT's layer over the vocabulary, and the two losses that it was trained by. V vocabulary.
#pragma once

#include "models/families/bert/bert_encoder.h"
#include "models/shared/encoder_heads.h"

namespace transom {

// What stands before the layer over the vocabulary. `scope` is that of the model.
class PredictionTransform {
 public:
  PredictionTransform(const Scope& scope, const BertConfig& c, const std::string& norm = "LayerNorm")
      : activation_(c.hidden_act),
        dense_(scope / "cls" / "predictions" / "transform" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        norm_(scope / "cls" / "predictions" / "transform" / norm, c.hidden_size, c.layer_norm_eps) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return norm_(activation(activation_, dense_(hidden, context)), context);
  }

 private:
  std::string activation_;
  Linear dense_;
  LayerNorm norm_;
};

// The transform, and a layer whose weight is the table of words or its own.
class BertPredictions {
 public:
  BertPredictions(const Scope& scope, const BertConfig& c, const Embedding& words,
                  const std::string& norm = "LayerNorm")
      : transform_(scope, c, norm),
        decoder_(scope / "cls" / "predictions", c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight",
                 words, c.tie_word_embeddings, c.hidden_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return decoder_(transform_(hidden, context), context);
  }

 private:
  PredictionTransform transform_;
  TiedDecoder decoder_;
};

// Masked words, and whether the second text follows the first: with both labels their losses are added. `predictions`
// makes [.., V] of hidden states, `order` two numbers of the whole text.
template <typename Predictions>
NamedTensors pre_training_outputs(const Predictions& predictions, const Tensor& hidden, const Tensor& order,
                                  const NamedTensors& inputs, ForwardContext& context) {
  const Tensor labels = inputs.find("labels"), next = inputs.find("next_sentence_label");
  LabelledRows rows{hidden, labels};
  if (context.training && labels.defined()) rows = labelled_rows(hidden, labels, context.computing.max_predictions);
  const Tensor words = predictions(rows.hidden, context);
  Tensor loss;
  if (labels.defined() && next.defined())
    loss = mean_cross_entropy(words, rows.labels, context) + mean_cross_entropy(order, next, context);
  return with_loss(loss, {{"prediction_logits", words}, {"seq_relationship_logits", order}});
}

}  // namespace transom
