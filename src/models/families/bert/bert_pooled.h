// SPDX-License-Identifier: Apache-2.0
// Models of a text encoder that pool its first token as BERT does, for the bodies of encoder_model.h.
#pragma once

#include "models/shared/encoder_model.h"

namespace transom {

// The body with the pooler that some of its heads read.
template <typename Body>
class EncoderWithPooler : public EncoderModel<Body> {
 protected:
  EncoderWithPooler(const Config& config, const Scope& scope, const std::string& prefix = Body::kPrefix)
      : EncoderModel<Body>(config, scope, prefix),
        pooler_((prefix.empty() ? scope : scope / prefix) / "pooler", this->config_) {}

  BertPooler pooler_;
};

// The bare body.
template <typename Body>
class PooledEncoder : public EncoderWithPooler<Body> {
 public:
  PooledEncoder(const Config& config, const Scope& scope) : EncoderWithPooler<Body>(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", this->pooler_(hidden, context)}};
    });
  }
};

// A class for each row.
template <typename Body>
class PooledSequenceClassifier : public EncoderWithPooler<Body> {
 public:
  PooledSequenceClassifier(const Config& config, const Scope& scope)
      : EncoderWithPooler<Body>(config, scope),
        dropout_(this->config_.classifier_dropout),
        classifier_(scope / "classifier", this->config_.hidden_size, this->config_.num_labels,
                    this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return sequence_classification_outputs(classifier_(dropout_(this->pooler_(hidden, context), context), context),
                                             inputs, this->config_.problem_type, context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace transom
