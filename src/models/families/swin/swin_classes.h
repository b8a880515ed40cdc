// SPDX-License-Identifier: Apache-2.0
// The classes that Swin and the encoder of Donut both have. B batch, L places of the grid, C channels.
#pragma once

#include "models/families/swin/swin_body.h"
#include "models/shared/encoder_heads.h"

namespace transom {

// The body alone, [B, L, C], and the mean of its places.
class SwinModel : public Model {
 public:
  SwinModel(const SwinConfig& c, const Scope& scope, bool norm = true) : config_(c), swin_(scope, c, false, norm) {}
  SwinModel(const Config& config, const Scope& scope) : SwinModel(SwinConfig(config), scope) {}

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
  SwinForImageClassification(const SwinConfig& c, const Scope& scope, const char* body, bool norm = true)
      : config_(c),
        swin_(scope / body, c, false, norm),
        classifier_(scope / "classifier", c.width(), c.num_labels, c.new_weights()) {}
  SwinForImageClassification(const Config& config, const Scope& scope)
      : SwinForImageClassification(SwinConfig(config), scope, "swin") {}

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

// Masked patches have a learned vector, and what hides behind them is made up.
class SwinForMaskedImageModeling : public Model {
 public:
  SwinForMaskedImageModeling(const SwinConfig& c, const Scope& scope, const char* body)
      : config_(c),
        swin_(scope / body, c, true),
        decoder_(scope / "decoder", c.width(), c.num_channels, c.encoder_stride) {}
  SwinForMaskedImageModeling(const Config& config, const Scope& scope)
      : SwinForMaskedImageModeling(SwinConfig(config), scope, "swin") {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor reconstruction = decoder_(output.last_hidden_state, context);
    return with_swin_states(
        masked_image_outputs(reconstruction, inputs, context, config_.patch_size[0], config_.num_channels), output,
        context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
  PixelDecoder decoder_;
};

}  // namespace transom
