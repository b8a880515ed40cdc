// SPDX-License-Identifier: Apache-2.0
// OWL-ViT (Minderer et al., 2022): every patch of a picture is a box, and a text says which of them it means. OWLv2
// (Minderer et al., 2023) also says how sure it is that a patch is an object, whatever the texts are.
// B pictures, Q texts a picture, P = h w patches, D hidden, E projection.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "models/families/clip/clip_towers.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

constexpr CLIPOptions kOwlViTTowers{.first_norm = "pre_layernorm",
                                    .end_is_highest = true,
                                    .text_defaults = R"({"max_position_embeddings": 16})",
                                    .vision_defaults = R"({"image_size": 768})"};
constexpr CLIPOptions kOwlv2Towers{.first_norm = "pre_layernorm",
                                   .end_is_highest = true,
                                   .text_defaults = R"({"max_position_embeddings": 16})",
                                   .vision_defaults = R"({"image_size": 768, "patch_size": 16})"};

std::vector<std::string> owlvit_input_names() { return {"input_ids", "pixel_values", "attention_mask"}; }

template <bool second>
constexpr const CLIPOptions& owlvit_towers() {
  return second ? kOwlv2Towers : kOwlViTTowers;
}

template <bool second>
class OwlViTModel : public Model {
 public:
  OwlViTModel(const Config& config, const Scope& scope) : towers_(config, scope, owlvit_towers<second>()) {}

 protected:
  std::vector<std::string> input_names() const override { return owlvit_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return towers_.outputs(inputs, context);
  }

 private:
  CLIPTowers towers_;
};

// Three layers with GELU between them.
class OwlViTBoxHead {
 public:
  OwlViTBoxHead(const Scope& scope, int64_t width, int64_t out = 4)
      : dense0_(scope / "dense0", width, width),
        dense1_(scope / "dense1", width, width),
        dense2_(scope / "dense2", width, out) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return dense2_(gelu(dense1_(gelu(dense0_(x, context)), context)), context);
  }

 private:
  Linear dense0_, dense1_, dense2_;
};

// How like a text each patch is, by the angle between the two, shifted and scaled as the patch says.
class OwlViTClassHead {
 public:
  OwlViTClassHead(const Scope& scope, int64_t width, int64_t out)
      : dense0_(scope / "dense0", width, out),
        logit_shift_(scope / "logit_shift", width, 1),
        logit_scale_(scope / "logit_scale", width, 1) {}

  struct Classes {
    Tensor logits, embeds;  // f32 [B, P, Q], [B, P, E]
  };
  // Patches [B, P, D], texts [B, Q, E], and which of them are texts, bool [B, Q].
  Classes operator()(const Tensor& patches, const Tensor& texts, const Tensor& mask, ForwardContext& context) const {
    const Tensor embeds = with_direction(dense0_(patches, context));
    const Tensor alike = dot_general(embeds, with_direction(texts), {{0}, {0}, {2}, {2}}, context.computing);
    const Tensor scale = activation("elu", logit_scale_(patches, context)) + 1;
    const Tensor logits = cast((alike + logit_shift_(patches, context)) * scale, DType::kFloat32);
    const Tensor lowest = full(logits.shape(), std::numeric_limits<float>::lowest());
    return {select(broadcast_to(unsqueeze(mask, 1), logits.shape()), logits, lowest), embeds};
  }

 private:
  static Tensor with_direction(const Tensor& x) { return x / (sqrt(reduce_sum(x * x, {-1}, true)) + 1e-6); }

  Linear dense0_, logit_shift_, logit_scale_;
};

// What is added to the boxes of a grid of patches before the sigmoid, [1, P, 4]: each stands at its patch, and is as
// large.
Tensor owlvit_box_bias(Extents grid) {
  const auto inverse_sigmoid = [](float x) { return std::log(x + 1e-4f) - std::log1p(-x + 1e-4f); };
  std::vector<float> values;
  values.reserve(static_cast<size_t>(4 * grid[0] * grid[1]));
  const auto height = static_cast<float>(grid[0]), width = static_cast<float>(grid[1]);
  for (int64_t y = 1; y <= grid[0]; ++y)
    for (int64_t x = 1; x <= grid[1]; ++x)
      for (const float part : {static_cast<float>(x) / width, static_cast<float>(y) / height, 1 / width, 1 / height})
        values.push_back(inverse_sigmoid(std::clamp(part, 0.0f, 1.0f)));
  return Tensor::from(values, {1, grid[0] * grid[1], 4});
}

template <bool second>
class OwlViTForObjectDetection : public Model {
 public:
  OwlViTForObjectDetection(const Config& config, const Scope& scope)
      : towers_(config, scope / (second ? "owlv2" : "owlvit"), owlvit_towers<second>()),
        class_head_(scope / "class_head", towers_.vision_config.hidden_size, towers_.text_config.hidden_size),
        box_head_(scope / "box_head", towers_.vision_config.hidden_size),
        layer_norm_(scope / "layer_norm", towers_.vision_config.hidden_size, towers_.vision_config.layer_norm_eps) {
    if (const int64_t projection = config.get_int("projection_dim", 512); projection != towers_.text_config.hidden_size)
      fail("{}: projection_dim: expected the hidden_size of text_config, {}, found {}", config.where(),
           towers_.text_config.hidden_size, projection);
    if (second) objectness_head_.emplace(scope / "objectness_head", towers_.vision_config.hidden_size, 1);
  }

 protected:
  std::vector<std::string> input_names() const override { return owlvit_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const CLIPTowers::Agreement seen = towers_(inputs, context);
    const Extents grid = patch_grid(size_of(inputs.at("pixel_values")), towers_.vision_config.patch_size);
    const Tensor patches = patches_of(seen.image.last_hidden_state, context);
    const int64_t B = patches.dim(0), D = patches.dim(2);

    const Tensor& ids = inputs.at("input_ids");
    if (ids.dim(0) % B != 0) fail("input_ids: expected as many texts for each of {} pictures, found {}", B, ids.dim(0));
    const int64_t Q = ids.dim(0) / B;
    const Tensor texts = reshape(seen.text_embeds, {B, Q, seen.text_embeds.dim(1)});
    // A text that begins with 0 is none: it fills up the texts of a picture.
    const Tensor first = reshape(slice(ids, 1, 0, 1), {B, Q});
    const auto classes = class_head_(patches, texts, greater(first, full({B, Q}, 0, ids.dtype())), context);
    const Tensor boxes = box_head_(patches, context);
    NamedTensors outputs{{"logits", classes.logits},
                         {"pred_boxes", sigmoid(boxes + cast(owlvit_box_bias(grid), boxes.dtype()))},
                         {"text_embeds", texts},
                         {"image_embeds", reshape(patches, {B, grid[0], grid[1], D})},
                         {"class_embeds", classes.embeds}};
    if (objectness_head_) outputs.set("objectness_logits", squeeze((*objectness_head_)(patches.detach(), context), 2));
    return outputs;
  }

 private:
  // Each patch times the token of the whole picture: [B, 1 + P, D] -> [B, P, D].
  Tensor patches_of(const Tensor& hidden, ForwardContext& context) const {
    const Tensor normed = towers_.vision_model.normed(hidden, context);
    return layer_norm_(slice(normed, 1, 1, normed.dim(1)) * slice(normed, 1, 0, 1), context);
  }

  CLIPTowers towers_;
  OwlViTClassHead class_head_;
  OwlViTBoxHead box_head_;
  LayerNorm layer_norm_;
  std::optional<OwlViTBoxHead> objectness_head_;
};

FamilyInputs owlvit_record_inputs() {
  FamilyInputs inputs = clip_record_inputs();
  std::erase_if(inputs, [](const FamilyInput& input) { return input.name == "position_ids"; });
  return inputs;
}

FamilyHead owlvit_pairs() {
  FamilyHead head = clip_head();
  head.pipelines = none;
  return head;
}

FamilyHead owlvit_detector(bool second) {
  FamilyHead head{.task = HeadTask::kObjectDetection,
                  .pipelines = {"zero-shot-object-detection"},
                  .labels = HeadLabels::kNone,
                  .modules = {"class_head", "box_head", "layer_norm"},
                  .vocabulary = none,
                  .outputs = {"logits", "pred_boxes", "text_embeds", "image_embeds", "class_embeds"}};
  if (second) {
    head.modules = {"class_head", "box_head", "layer_norm", "objectness_head"};
    head.outputs = {"logits", "pred_boxes", "text_embeds", "image_embeds", "class_embeds", "objectness_logits"};
  }
  return head;
}

template <bool second>
Family owlvit_record(const char* model_type, const char* image_processor, const std::string& classes) {
  return {.model_type = model_type,
          .base_prefix = model_type,
          .architectures = {{classes + "Model", owlvit_pairs(), make_model<OwlViTModel<second>>},
                            {classes + "ForObjectDetection", owlvit_detector(second),
                             make_model<OwlViTForObjectDetection<second>>}},
          .inputs = owlvit_record_inputs(),
          .processors = {.tokenizer = "CLIP",
                         .image_processor = image_processor,
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

}  // namespace

static Family owlvit_family() { return owlvit_record<false>("owlvit", "OwlViT", "OwlViT"); }
static Family owlv2_family() { return owlvit_record<true>("owlv2", "Owlv2", "Owlv2"); }

const RegisterFamilies kOwlViTFamilies{owlvit_family, owlv2_family};

}  // namespace transom
