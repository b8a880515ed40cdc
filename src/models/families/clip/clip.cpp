// SPDX-License-Identifier: Apache-2.0
// CLIP (Radford et al., 2021): a causal text encoder and a ViT whose projections are trained to agree.
// B batch, T tokens or 1 + P patches, D hidden, E projection.
#include "models/families/clip/clip_original.h"
#include "models/families/clip/clip_towers.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

class CLIPModel : public Model {
 public:
  CLIPModel(const Config& config, const Scope& scope) : towers_(config, scope) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = clip_text_names();
    names.push_back("pixel_values");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return towers_.outputs(inputs, context);
  }

 private:
  CLIPTowers towers_;
};

// One tower alone, with its projection or without. Traits name the tower's parts.
struct TextTraits {
  using Settings = CLIPTextConfig;
  using Tower = CLIPTextTower;
  static constexpr const char *kPart = "text_config", *kPrefix = "text_model", *kProjection = "text_projection",
                              *kEmbeds = "text_embeds";
  static std::vector<std::string> input_names() { return clip_text_names(); }
};
struct VisionTraits {
  using Settings = CLIPVisionConfig;
  using Tower = CLIPVisionTower;
  static constexpr const char *kPart = "vision_config", *kPrefix = "vision_model", *kProjection = "visual_projection",
                              *kEmbeds = "image_embeds";
  static std::vector<std::string> input_names() { return {"pixel_values"}; }
};

template <typename Traits>
class CLIPTowerModel : public Model {
 public:
  CLIPTowerModel(const Config& config, const Scope& scope)
      : config_(clip_part(config, Traits::kPart)), tower_(scope / Traits::kPrefix, config_) {}

 protected:
  std::vector<std::string> input_names() const override { return Traits::input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const CLIPTowerOutput output = tower_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", output.last_hidden_state}, {"pooler_output", output.pooler_output}};
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  typename Traits::Settings config_;
  typename Traits::Tower tower_;
};

template <typename Traits>
class CLIPTowerModelWithProjection : public Model {
 public:
  CLIPTowerModelWithProjection(const Config& config, const Scope& scope)
      : config_(clip_part(config, Traits::kPart)),
        tower_(scope / Traits::kPrefix, config_),
        projection_(scope / Traits::kProjection, config_.hidden_size, config_.projection_dim, config_.projection()) {}

 protected:
  std::vector<std::string> input_names() const override { return Traits::input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const CLIPTowerOutput output = tower_(inputs, context);
    NamedTensors outputs{{Traits::kEmbeds, projection_(output.pooler_output, context)},
                         {"last_hidden_state", output.last_hidden_state}};
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  typename Traits::Settings config_;
  typename Traits::Tower tower_;
  Linear projection_;
};

class CLIPForImageClassification : public Model {
 public:
  CLIPForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        config_(clip_part(config, "vision_config")),
        vision_model_(scope / "vision_model", config_),
        classifier_(scope / "classifier", config_.hidden_size, number_of_labels(config),
                    {.deviation = config_.width_deviation()}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const CLIPTowerOutput output = vision_model_(inputs, context);
    const Tensor& hidden = output.last_hidden_state;
    const Tensor logits = classifier_(mean(slice(hidden, 1, 1, hidden.dim(1)), {1}), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, problem_type_, context);
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  std::string problem_type_;
  CLIPVisionConfig config_;
  CLIPVisionTower vision_model_;
  Linear classifier_;
};

FamilyHead projection_head(const std::string& module, const std::string& output) {
  return {.task = HeadTask::kProjection,
          .pipelines = none,
          .labels = HeadLabels::kNone,
          .modules = std::vector<std::string>{module},
          .vocabulary = none,
          .outputs = std::vector<std::string>{output, "last_hidden_state"}};
}

std::vector<Architecture> text_architectures() {
  return {{"CLIPTextModel", body_head({}, {"last_hidden_state", "pooler_output"}),
           make_model<CLIPTowerModel<TextTraits>>, clip_text_record_inputs()},
          {"CLIPTextModelWithProjection", projection_head("text_projection", "text_embeds"),
           make_model<CLIPTowerModelWithProjection<TextTraits>>, clip_text_record_inputs()}};
}
std::vector<Architecture> vision_architectures() {
  return {{"CLIPVisionModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
           make_model<CLIPTowerModel<VisionTraits>>, clip_image_record_inputs()},
          {"CLIPVisionModelWithProjection", projection_head("visual_projection", "image_embeds"),
           make_model<CLIPTowerModelWithProjection<VisionTraits>>, clip_image_record_inputs()}};
}

}  // namespace

static Family clip_family() {
  std::vector<Architecture> all{{"CLIPModel", clip_head(), make_model<CLIPModel>},
                                {"CLIPForImageClassification", image_classification_head({"classifier"}),
                                 make_model<CLIPForImageClassification>, clip_image_record_inputs()}};
  for (const auto& part : {text_architectures(), vision_architectures()})
    all.insert(all.end(), part.begin(), part.end());
  return {.model_type = "clip",
          .base_prefix = "clip",
          .architectures = all,
          .inputs = clip_record_inputs(),
          .processors = {.tokenizer = "CLIP",
                         .image_processor = "CLIP",
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "clip", .without = {"CLIPForImageClassification", "WithProjection"}},
                      .flax = FlaxNames{.without = {"CLIPForImageClassification", "CLIPVisionModelWithProjection"}}},
          .planning = {.fused_attention = false}};
}

// Checkpoints of one tower name it as their type.
static Family clip_text_family() {
  return {.model_type = "clip_text_model",
          .base_prefix = "text_model",
          .architectures = text_architectures(),
          .inputs = clip_text_record_inputs(),
          .processors = {.tokenizer = none,
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "clip", .without = {"WithProjection"}},
                      .flax = FlaxNames{},
                      .original = clip_text_original()},
          .planning = {.fused_attention = false}};
}
static Family clip_vision_family() {
  return {.model_type = "clip_vision_model",
          .base_prefix = "vision_model",
          .architectures = vision_architectures(),
          .inputs = clip_image_record_inputs(),
          .processors =
              {.tokenizer = none, .image_processor = "CLIP", .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "clip", .without = {"WithProjection"}},
                      .flax = FlaxNames{.without = {"CLIPVisionModelWithProjection"}}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kClipFamilies{clip_family, clip_text_family, clip_vision_family};

}  // namespace transom
