// SPDX-License-Identifier: Apache-2.0
// The classes that Swin and the encoder of Donut both have. B batch, L places of the grid, C channels.
#pragma once

#include "models/families/swin/swin_body.h"
#include "models/shared/encoder_heads.h"

namespace transom {

// The body alone, [B, L, C], and the mean of its places.
class SwinModel : public Model {
 public:
  SwinModel(const Config& config, const Scope& scope, bool norm = true)
      : config_(config), swin_(scope, config_, false, norm) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor& hidden = output.last_hidden_state;
    return with_swin_states({{"last_hidden_state", hidden}, {"pooler_output", mean(hidden, {1})}}, output, context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
};

// `body`: the name of the body among the weights.
class SwinForImageClassification : public Model {
 public:
  SwinForImageClassification(const Config& config, const Scope& scope, const char* body = "swin", bool norm = true)
      : config_(config),
        swin_(scope / body, config_, false, norm),
        classifier_(scope / "classifier", config_.width(), config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor logits = classifier_(mean(output.last_hidden_state, {1}), context);
    return with_swin_states(sequence_classification_outputs(logits, inputs, config_.problem_type, context), output,
                            context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
  Linear classifier_;
};

}  // namespace transom
