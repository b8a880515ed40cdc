// SPDX-License-Identifier: Apache-2.0
// BERT and its kin as writers (is_decoder): the body and the head of masked language modelling, which predicts the
// token behind instead of the one that is hidden.
#pragma once

#include "base/error.h"
#include "models/shared/decoder.h"
#include "models/shared/encoder_model.h"

namespace transom {

// Body and head: those of EncoderForMaskedLM.
template <typename Body, typename Head>
class EncoderForCausalLM : public GenerativeModel {
 public:
  EncoderForCausalLM(const Config& config, const Scope& scope)
      : config_(config), body_(scope / Body::kPrefix, config_), head_(scope, config_, body_.word_embeddings()) {}
  int64_t max_positions() const override { return config_.max_position_embeddings; }

 protected:
  std::vector<std::string> input_names() const override { return Body::input_names("labels"); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    if (context.cache && !config_.is_decoder)
      fail("config.json: is_decoder: expected true, as a model that writes sees none of the tokens to come");
    const EncoderOutput encoded = body_(inputs, context);
    Tensor hidden = encoded.last_hidden_state;
    if (context.logits_to_keep > 0 && context.logits_to_keep < hidden.dim(1))
      hidden = slice(hidden, 1, hidden.dim(1) - context.logits_to_keep, hidden.dim(1));
    const Tensor logits = head_(hidden, context), labels = inputs.find("labels");
    Tensor loss;
    if (labels.defined()) loss = mean_cross_entropy(logits, next_labels(labels), context);
    NamedTensors outputs = with_loss(loss, {{"logits", logits}});
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  typename Body::Settings config_;
  Body body_;
  Head head_;
};

}  // namespace transom
