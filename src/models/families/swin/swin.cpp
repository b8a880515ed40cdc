// SPDX-License-Identifier: Apache-2.0
// Swin (Liu et al., 2021) with its heads. B batch, L places of the grid, C channels.
#include "models/families/swin/swin_classes.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

class SwinForMaskedImageModeling : public Model {
 public:
  SwinForMaskedImageModeling(const Config& config, const Scope& scope)
      : config_(config),
        swin_(scope / "swin", config_, true),
        decoder_(scope / "decoder", config_.width(), config_.num_channels, config_.encoder_stride) {}

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

}  // namespace

static Family swin_family() {
  return {
      .model_type = "swin",
      .base_prefix = "swin",
      .architectures = {{"SwinModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<SwinModel>},
                        {"SwinForImageClassification", image_classification_head({"classifier"}),
                         make_model<SwinForImageClassification>},
                        {"SwinForMaskedImageModeling", masked_image_head({"decoder", "swin.embeddings.mask_token"}),
                         make_model<SwinForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "swin", .joint = ".", .separate = "decoder"}, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kSwinFamily{swin_family};

}  // namespace transom
