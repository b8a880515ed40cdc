// SPDX-License-Identifier: Apache-2.0
// DeiT (Touvron et al., 2021): ViT with a second token, which learned from a teacher.
#include "models/families/vit/vit_body.h"

namespace transom {
namespace {

Tensor token_of(const Tensor& states, int64_t place) { return squeeze(slice(states, 1, place, place + 1), 1); }

class DeiTModel : public Model {
 public:
  DeiTModel(const Config& config, const Scope& scope)
      : config_(config),
        deit_(scope, config_, {.distilled = true}),
        pooler_(scope / "pooler" / "dense", config_.hidden_size, config_.pooler_output_size, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = deit_(inputs, context);
    const Tensor pooled = pooler_(token_of(encoded.last_hidden_state, 0), context);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state},
                         {"pooler_output", activation(config_.pooler_act, pooled)}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody deit_;
  Linear pooler_;
};

class DeiTForImageClassification : public Model {
 public:
  DeiTForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        deit_(scope / "deit", config_, {.distilled = true}),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = deit_(inputs, context);
    const Tensor logits = classifier_(token_of(encoded.last_hidden_state, 0), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, config_.problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody deit_;
  Linear classifier_;
};

// The mean of what the tokens of the class and of the teacher say. Without a loss, as in Transformers.
class DeiTForImageClassificationWithTeacher : public Model {
 public:
  DeiTForImageClassificationWithTeacher(const Config& config, const Scope& scope)
      : config_(config),
        deit_(scope / "deit", config_, {.distilled = true}),
        cls_classifier_(scope / "cls_classifier", config_.hidden_size, config_.num_labels, config_.new_weights()),
        distillation_classifier_(scope / "distillation_classifier", config_.hidden_size, config_.num_labels,
                                 config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = deit_(inputs, context);
    const Tensor own = cls_classifier_(token_of(encoded.last_hidden_state, 0), context);
    const Tensor taught = distillation_classifier_(token_of(encoded.last_hidden_state, 1), context);
    NamedTensors outputs{{"logits", (own + taught) / 2.0}, {"cls_logits", own}, {"distillation_logits", taught}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody deit_;
  Linear cls_classifier_, distillation_classifier_;
};

class DeiTForMaskedImageModeling : public Model {
 public:
  DeiTForMaskedImageModeling(const Config& config, const Scope& scope)
      : config_(config),
        deit_(scope / "deit", config_, {.masks = true, .distilled = true}),
        decoder_(scope / "decoder", config_.hidden_size, config_.num_channels, config_.encoder_stride) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = deit_(inputs, context);
    const Tensor patches = slice(encoded.last_hidden_state, 1, 2, encoded.last_hidden_state.dim(1));
    NamedTensors outputs =
        masked_image_outputs(decoder_(patches, context), inputs, context, config_.patch_size[0], config_.num_channels);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  ViTConfig config_;
  ViTBody deit_;
  PixelDecoder decoder_;
};

FamilyHead taught_head() {
  FamilyHead head = image_classification_head({"cls_classifier", "distillation_classifier"});
  head.labels = HeadLabels::kNone;
  head.outputs = std::vector<std::string>{"logits", "cls_logits", "distillation_logits"};
  return head;
}

}  // namespace

static Family deit_family() {
  return {
      .model_type = "deit",
      .base_prefix = "deit",
      .architectures = {{"DeiTModel",
                         body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<DeiTModel>},
                        {"DeiTForImageClassification", image_classification_head({"classifier"}),
                         make_model<DeiTForImageClassification>},
                        {"DeiTForImageClassificationWithTeacher", taught_head(),
                         make_model<DeiTForImageClassificationWithTeacher>},
                        {"DeiTForMaskedImageModeling", masked_image_head({"decoder", "deit.embeddings.mask_token"}),
                         make_model<DeiTForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "DeiT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kDeitFamily{deit_family};

}  // namespace transom
