// SPDX-License-Identifier: Apache-2.0
// SigLIP (Zhai et al., 2023; SigLIP 2 of fixed sizes, Tschannen et al., 2025): texts and pictures whose vectors are
// trained to agree, each pair by itself. Models of both towers, of one, and with classes over the patches.
#include "base/error.h"
#include "models/families/siglip/siglip_towers.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

const std::vector<std::string> kSiglipTexts = {"input_ids", "attention_mask", "position_ids"};

// The part of a configuration, or the whole one of a model of one tower.
Config siglip_part(const Config& config, const std::string& part) {
  return config.has(part) || config.get_string("model_type", "") == "siglip" ? config.get_object(part) : config;
}

Tensor of_length_one(const Tensor& x) { return x / sqrt(reduce_sum(x * x, {-1}, true)); }

// The mean over texts of the sum of -log sigmoid(logit) of the own picture and of -log sigmoid(-logit) of all others.
Tensor pairs_loss(const Tensor& logits_per_text, const ForwardContext& context) {
  const Shape& shape = logits_per_text.shape();
  if (shape[0] != shape[1])
    fail("the loss of pairs needs as many texts as pictures, found {} and {}", shape[0], shape[1]);
  const Tensor own = equal(iota(shape, 0), iota(shape, 1));
  const Tensor logits = cast(logits_per_text, DType::kFloat32);
  const Tensor wrong = softplus(select(own, -logits, logits));  // -log sigmoid(x) = softplus(-x)
  return mean_of_all(reduce_sum(wrong, {1}), context);
}

class SiglipModel : public Model {
 public:
  SiglipModel(const Config& config, const Scope& scope)
      : text_model_(scope / "text_model", SiglipTextConfig(config.get_object("text_config"))),
        vision_model_(scope / "vision_model", SiglipVisionConfig(config.get_object("vision_config"))),
        logit_scale_(scope.parameter("logit_scale", {1}, Initial::zeros())),
        logit_bias_(scope.parameter("logit_bias", {1}, Initial::zeros())) {
    config.get_float("initializer_factor", 1);
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = kSiglipTexts;
    names.push_back("pixel_values");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors texts;
    for (const std::string& name : kSiglipTexts)
      if (inputs.find(name).defined()) texts.set(name, inputs.find(name));
    const Tensor seen = vision_model_(inputs, context).pooler_output;
    if (!seen.defined()) fail("config.json: vision_config.vision_use_head: expected true: its vector is compared");
    const Tensor image_embeds = of_length_one(seen);
    const Tensor text_embeds = of_length_one(text_model_(texts, context).pooler_output);
    const Tensor logits_per_text =
        dot_general(text_embeds, image_embeds, {{}, {}, {1}, {1}}, context.computing) * exp(logit_scale_->value) +
        logit_bias_->value;
    return with_loss(context.return_loss ? pairs_loss(logits_per_text, context) : Tensor(),
                     {{"logits_per_image", permute(logits_per_text, {1, 0})},
                      {"logits_per_text", logits_per_text},
                      {"text_embeds", text_embeds},
                      {"image_embeds", image_embeds}});
  }

 private:
  SiglipTextTower text_model_;
  SiglipVisionTower vision_model_;
  std::shared_ptr<Parameter> logit_scale_, logit_bias_;
};

NamedTensors siglip_states(const SiglipTowerOutput& output) {
  NamedTensors outputs{{"last_hidden_state", output.last_hidden_state}};
  if (output.pooler_output.defined()) outputs.set("pooler_output", output.pooler_output);
  add_hidden_states(outputs, output.hidden_states);
  return outputs;
}

class SiglipTextModel : public Model {
 public:
  SiglipTextModel(const Config& config, const Scope& scope)
      : tower_(scope / "text_model", SiglipTextConfig(siglip_part(config, "text_config"))) {}

 protected:
  std::vector<std::string> input_names() const override { return kSiglipTexts; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return siglip_states(tower_(inputs, context));
  }

 private:
  SiglipTextTower tower_;
};

class SiglipVisionModel : public Model {
 public:
  SiglipVisionModel(const Config& config, const Scope& scope)
      : tower_(scope / "vision_model", SiglipVisionConfig(siglip_part(config, "vision_config"))) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return siglip_states(tower_(inputs, context));
  }

 private:
  SiglipVisionTower tower_;
};

// A class by the mean of all patches.
class SiglipForImageClassification : public Model {
 public:
  SiglipForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        settings_(config.get_object("vision_config")),
        vision_model_(scope / "vision_model", settings_),
        classifier_(scope / "classifier", settings_.hidden_size, number_of_labels(config),
                    {.deviation = settings_.initializer_range}) {
    config.get_float("initializer_factor", 1);
    config.get_object("text_config");
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SiglipTowerOutput output = vision_model_(inputs, context);
    const Tensor logits = classifier_(mean(output.last_hidden_state, {1}), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, problem_type_, context);
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  std::string problem_type_;
  SiglipVisionConfig settings_;
  SiglipVisionTower vision_model_;
  Linear classifier_;
};

FamilyHead siglip_pairs_head() {
  return {.task = HeadTask::kContrastive,
          .pipelines = {"zero-shot-image-classification"},
          .labels = HeadLabels::kPairs,
          .modules = {"logit_scale", "logit_bias"},
          .vocabulary = none,
          .outputs = {"logits_per_image", "logits_per_text", "text_embeds", "image_embeds"},
          .judges_pairs_apart = true};
}

FamilyInputs siglip_text_inputs() {
  FamilyInputs inputs = placed_text_inputs();
  inputs[0].table.fields = {"text_config.vocab_size"};
  inputs[1].exported = FamilyInput::Export::kNever;  // all places are read, those that fill a text too
  return inputs;
}
FamilyInputs siglip_vision_inputs() { return {sized_pixels("vision_config")}; }
FamilyInputs siglip_both_inputs() {
  FamilyInputs inputs = siglip_text_inputs();
  inputs.insert(inputs.begin() + 1, sized_pixels("vision_config"));
  return inputs;
}

std::vector<Architecture> siglip_text_architectures() {
  return {{"SiglipTextModel", body_head({}, {"last_hidden_state", "pooler_output"}), make_model<SiglipTextModel>,
           siglip_text_inputs()}};
}
std::vector<Architecture> siglip_vision_architectures() {
  return {{"SiglipVisionModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
           make_model<SiglipVisionModel>, siglip_vision_inputs()}};
}

FamilyWeights siglip_weights() {
  return {.lora_targets = none,
          .late_parts = none,
          .awq_activation = none,
          .scaled_layers = none,
          .opens_no_codes = false,
          .multi_query = none};
}

Family siglip_family() {
  std::vector<Architecture> all{{"SiglipModel", siglip_pairs_head(), make_model<SiglipModel>},
                                {"SiglipForImageClassification", image_classification_head({"classifier"}),
                                 make_model<SiglipForImageClassification>, siglip_vision_inputs()}};
  for (const auto& part : {siglip_text_architectures(), siglip_vision_architectures()})
    all.insert(all.end(), part.begin(), part.end());
  return {.model_type = "siglip",
          .base_prefix = "siglip",
          .architectures = all,
          .inputs = siglip_both_inputs(),
          .processors = {.tokenizer = "Siglip",
                         .image_processor = "Siglip",
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false,
                         .text_length = 64},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

// Checkpoints of one tower name it as their type.
Family siglip_text_family() {
  return {.model_type = "siglip_text_model",
          .base_prefix = "text_model",
          .architectures = siglip_text_architectures(),
          .inputs = siglip_text_inputs(),
          .processors = {.tokenizer = "Siglip",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}
Family siglip_vision_family() {
  return {.model_type = "siglip_vision_model",
          .base_prefix = "vision_model",
          .architectures = siglip_vision_architectures(),
          .inputs = siglip_vision_inputs(),
          .processors = {.tokenizer = none,
                         .image_processor = "Siglip",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kSiglipFamilies{siglip_family, siglip_text_family, siglip_vision_family};

}  // namespace
}  // namespace transom
