// SPDX-License-Identifier: Apache-2.0
// Mask2Former (Cheng et al., 2022): a segmenter whose queries each tell a class and a mask, of objects or of regions. B
// batch, Q queries.
#include "base/error.h"
#include "models/families/mask2former/mask2former_decoder.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

struct Mask2FormerOutput {
  Mask2FormerPixels pixels;
  Mask2FormerDecoded decoded;
};

class Mask2FormerBody {
 public:
  Mask2FormerBody(const Config& config, const Mask2FormerConfig& c, const Scope& scope)
      : pixel_level_module_(config, c, scope / "pixel_level_module"),
        transformer_module_(scope / "transformer_module", c) {}
  Mask2FormerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    Mask2FormerOutput output;
    output.pixels = pixel_level_module_(image_input(inputs, pixel_level_module_.num_channels()), context);
    output.decoded = transformer_module_(output.pixels, context);
    return output;
  }

 private:
  Mask2FormerPixelModule pixel_level_module_;
  Mask2FormerDecoder transformer_module_;
};

NamedTensors with_mask2former_states(NamedTensors outputs, const Mask2FormerOutput& output,
                                     const ForwardContext& context) {
  const std::vector<Tensor>& states = output.decoded.states;
  outputs.set("encoder_last_hidden_state", output.pixels.last_map);
  outputs.set("pixel_decoder_last_hidden_state", output.pixels.features);
  outputs.set("transformer_decoder_last_hidden_state", states.back());
  if (context.output_hidden_states)
    for (size_t i = 0; i < states.size(); ++i)
      outputs.set("transformer_decoder_hidden_states." + std::to_string(i), states[i]);
  return outputs;
}

class Mask2FormerModel : public Model {
 public:
  Mask2FormerModel(const Config& config, const Scope& scope) : body_(config, Mask2FormerConfig(config), scope) {}

 protected:
  // pixel_mask is what processors give beside padded pictures: the model sees the padding as it sees the picture.
  std::vector<std::string> input_names() const override { return {"pixel_values", "pixel_mask"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_mask2former_states({}, body_(inputs, context), context);
  }

 private:
  Mask2FormerBody body_;
};

class Mask2FormerForUniversalSegmentation : public Model {
 public:
  Mask2FormerForUniversalSegmentation(const Config& config, const Scope& scope)
      : c_(config),
        model_(config, c_, scope / "model"),
        class_predictor_(scope / "class_predictor", c_.hidden_dim, c_.num_labels + 1, {.deviation = c_.init_std}) {
    (scope / "criterion").derived("empty_weight");
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names{"pixel_values", "pixel_mask", "class_labels", "mask_labels"};
    names.insert(names.end(), mask_point_names().begin(), mask_point_names().end());
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const MaskLabels labels = mask_labels(inputs, c_.num_labels);
    const Mask2FormerOutput output = model_(inputs, context);
    const Mask2FormerPrediction& last = output.decoded.predictions.back();
    const Tensor logits = class_predictor_(last.states, context);
    const Tensor loss = labels.masks.defined() ? loss_of(output, labels, inputs, context) : Tensor();
    return with_loss(
        loss, with_mask2former_states({{"class_queries_logits", logits}, {"masks_queries_logits", last.masks}}, output,
                                      context));
  }

 private:
  // The sum over all predictions, the last one first, in whose order points are drawn.
  Tensor loss_of(const Mask2FormerOutput& output, const MaskLabels& labels, const NamedTensors& inputs,
                 ForwardContext& context) const {
    const std::vector<Mask2FormerPrediction>& all = output.decoded.predictions;
    const std::vector<MaskPoints> points = mask_points(inputs, std::ssize(all), labels, c_.weights, context);
    Tensor loss;
    for (size_t i = 0; i < all.size(); ++i) {
      const Mask2FormerPrediction& each = all[i == 0 ? all.size() - 1 : i - 1];
      const Tensor part =
          mask_loss(class_predictor_(each.states, context), each.masks, labels, c_.weights, points[i], context);
      loss = loss.defined() ? loss + part : part;
    }
    return loss;
  }

  Mask2FormerConfig c_;
  Mask2FormerBody model_;
  Linear class_predictor_;
};

const std::vector<std::string> kMask2FormerStates = {"encoder_last_hidden_state", "pixel_decoder_last_hidden_state",
                                                     "transformer_decoder_last_hidden_state"};

FamilyHead mask2former_head() {
  std::vector<std::string> outputs{"class_queries_logits", "masks_queries_logits"};
  outputs.insert(outputs.end(), kMask2FormerStates.begin(), kMask2FormerStates.end());
  return {.task = HeadTask::kSegmentation,
          .pipelines = {"image-segmentation"},
          .labels = HeadLabels::kMasks,
          .modules = {"class_predictor"},
          .vocabulary = none,
          .outputs = std::move(outputs)};
}

}  // namespace

static Family mask2former_family() {
  return {.model_type = "mask2former",
          .base_prefix = "model",
          .architectures = {{"Mask2FormerModel", body_head({"image-feature-extraction"}, kMask2FormerStates),
                             make_model<Mask2FormerModel>},
                            {"Mask2FormerForUniversalSegmentation", mask2former_head(),
                             make_model<Mask2FormerForUniversalSegmentation>}},
          .inputs = {pixels_of_any_size("backbone_config.num_channels")},
          .processors = {.tokenizer = none,
                         .image_processor = "Mask2Former",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .renamed_parts = {{"model.pixel_level_module.encoder.", "model.pixel_level_module.encoder.swin."},
                                        {"pixel_level_module.encoder.", "pixel_level_module.encoder.swin."}}},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kMask2FormerFamily{mask2former_family};

}  // namespace transom
