// SPDX-License-Identifier: Apache-2.0
// SigLIP (Zhai et al., 2023; SigLIP 2 of fixed sizes, Tschannen et al., 2025): texts and pictures whose vectors are
// trained to agree, each pair by itself. Models of both towers, of one, and with classes over the patches.
#include "base/error.h"
#include "models/families/siglip/siglip_towers.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

const std::vector<std::string> kSiglipTexts = {"input_ids", "attention_mask", "position_ids"};

// What tells SigLIP 2 for pictures of any form (NaFlex) from SigLIP.
struct SiglipKind {
  std::string type, name;  // model_type, and how classes begin
  bool flexible;
};
const SiglipKind kSiglip{"siglip", "Siglip", false}, kSiglip2{"siglip2", "Siglip2", true};

// The part of a configuration, or the whole one of a model of one tower.
Config siglip_part(const Config& config, const std::string& part, const SiglipKind& kind) {
  return config.has(part) || config.get_string("model_type", "") == kind.type ? config.get_object(part) : config;
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
  SiglipModel(const Config& config, const Scope& scope, const SiglipKind& kind)
      : text_model_(scope / "text_model", SiglipTextConfig(config.get_object("text_config"))),
        vision_model_(scope / "vision_model", SiglipVisionConfig(config.get_object("vision_config"), kind.flexible)),
        names_of_pixels_(SiglipVisionTower::input_names(kind.flexible)),
        logit_scale_(scope.parameter("logit_scale", {1}, Initial::zeros())),
        logit_bias_(scope.parameter("logit_bias", {1}, Initial::zeros())) {
    config.get_float("initializer_factor", 1);
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = kSiglipTexts;
    names.insert(names.end(), names_of_pixels_.begin(), names_of_pixels_.end());
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
  std::vector<std::string> names_of_pixels_;
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
  SiglipTextModel(const Config& config, const Scope& scope, const SiglipKind& kind)
      : tower_(scope / "text_model", SiglipTextConfig(siglip_part(config, "text_config", kind))) {}

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
  SiglipVisionModel(const Config& config, const Scope& scope, const SiglipKind& kind)
      : tower_(scope / "vision_model", SiglipVisionConfig(siglip_part(config, "vision_config", kind), kind.flexible)),
        names_(SiglipVisionTower::input_names(kind.flexible)) {}

 protected:
  std::vector<std::string> input_names() const override { return names_; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return siglip_states(tower_(inputs, context));
  }

 private:
  SiglipVisionTower tower_;
  std::vector<std::string> names_;
};

// A class by the mean of all patches that there are.
class SiglipForImageClassification : public Model {
 public:
  SiglipForImageClassification(const Config& config, const Scope& scope, const SiglipKind& kind)
      : problem_type_(config.get_string("problem_type", "")),
        settings_(config.get_object("vision_config"), kind.flexible),
        vision_model_(scope / "vision_model", settings_),
        classifier_(scope / "classifier", settings_.hidden_size, number_of_labels(config),
                    {.deviation = settings_.initializer_range}) {
    config.get_float("initializer_factor", 1);
    config.get_object("text_config");
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = SiglipVisionTower::input_names(settings_.flexible);
    names.push_back("labels");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SiglipTowerOutput output = vision_model_(inputs, context);
    const Tensor logits = classifier_(pooled(output.last_hidden_state, inputs), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, problem_type_, context);
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  Tensor pooled(const Tensor& states, const NamedTensors& inputs) const {
    const Tensor given = settings_.flexible ? inputs.find("pixel_attention_mask") : Tensor();
    if (!given.defined()) return mean(states, {1});
    const Tensor there = unsqueeze(cast(given, states.dtype()), 2);
    return reduce_sum(states * there, {1}) / reduce_sum(there, {1});
  }

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
// Of pictures of any form files have those that fill a square of patches.
FamilyInputs siglip_vision_inputs(const SiglipKind& kind) {
  if (!kind.flexible) return {sized_pixels("vision_config")};
  const InputExtent patches{.name = "num_patches", .fields = {"vision_config.num_patches"}, .otherwise = 256};
  const InputExtent numbers{
      .name = "numbers", .fields = {"vision_config.patch_size"}, .otherwise = 16, .times = 3, .squared = true};
  return {{.name = "pixel_values", .kind = FamilyInput::Kind::kPixels, .axes = {patches, numbers}},
          {.name = "pixel_attention_mask",
           .kind = FamilyInput::Kind::kMask,
           .axes = {patches},
           .exported = FamilyInput::Export::kNever,
           .needed = false}};
}
FamilyInputs siglip_both_inputs(const SiglipKind& kind) {
  FamilyInputs inputs = siglip_text_inputs();
  const FamilyInputs pixels = siglip_vision_inputs(kind);
  inputs.insert(inputs.begin() + 1, pixels.begin(), pixels.end());
  return inputs;
}

template <typename M>
Architecture siglip_architecture(const SiglipKind& kind, const std::string& end, FamilyHead head,
                                 std::optional<FamilyInputs> inputs = {}) {
  return {kind.name + end, std::move(head),
          [kind](const Config& config, const Scope& scope) -> std::unique_ptr<Model> {
            return std::make_unique<M>(config, scope, kind);
          },
          std::move(inputs)};
}

std::vector<Architecture> siglip_text_architectures(const SiglipKind& kind) {
  return {siglip_architecture<SiglipTextModel>(kind, "TextModel", body_head({}, {"last_hidden_state", "pooler_output"}),
                                               siglip_text_inputs())};
}
std::vector<Architecture> siglip_vision_architectures(const SiglipKind& kind) {
  return {siglip_architecture<SiglipVisionModel>(
      kind, "VisionModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
      siglip_vision_inputs(kind))};
}

FamilyWeights siglip_weights() {
  return {.lora_targets = none,
          .late_parts = none,
          .awq_activation = none,
          .scaled_layers = none,
          .opens_no_codes = false,
          .multi_query = none};
}

Family siglip_family_of(const SiglipKind& kind) {
  std::vector<Architecture> all{
      siglip_architecture<SiglipModel>(kind, "Model", siglip_pairs_head()),
      siglip_architecture<SiglipForImageClassification>(
          kind, "ForImageClassification", image_classification_head({"classifier"}), siglip_vision_inputs(kind))};
  for (const auto& part : {siglip_text_architectures(kind), siglip_vision_architectures(kind)})
    all.insert(all.end(), part.begin(), part.end());
  return {.model_type = kind.type,
          .base_prefix = kind.type,
          .architectures = all,
          .inputs = siglip_both_inputs(kind),
          .processors = {.tokenizer = kind.name,
                         .image_processor = kind.name,
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false,
                         .text_length = 64},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

// Checkpoints of one tower name it as their type.
Family siglip_text_family_of(const SiglipKind& kind) {
  return {.model_type = kind.type + "_text_model",
          .base_prefix = "text_model",
          .architectures = siglip_text_architectures(kind),
          .inputs = siglip_text_inputs(),
          .processors = {.tokenizer = kind.name,
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}
Family siglip_vision_family_of(const SiglipKind& kind) {
  return {.model_type = kind.type + "_vision_model",
          .base_prefix = "vision_model",
          .architectures = siglip_vision_architectures(kind),
          .inputs = siglip_vision_inputs(kind),
          .processors = {.tokenizer = none,
                         .image_processor = kind.name,
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = siglip_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

Family siglip_family() { return siglip_family_of(kSiglip); }
Family siglip_text_family() { return siglip_text_family_of(kSiglip); }
Family siglip_vision_family() { return siglip_vision_family_of(kSiglip); }
Family siglip2_family() { return siglip_family_of(kSiglip2); }
Family siglip2_text_family() { return siglip_text_family_of(kSiglip2); }
Family siglip2_vision_family() { return siglip_vision_family_of(kSiglip2); }

const RegisterFamilies kSiglipFamilies{siglip_family,  siglip_text_family,  siglip_vision_family,
                                       siglip2_family, siglip2_text_family, siglip2_vision_family};

}  // namespace
}  // namespace transom
