// SPDX-License-Identifier: Apache-2.0
// CLIP (Radford et al., 2021): a causal text encoder and a ViT whose projections are trained to agree.
// B batch, T tokens or 1 + P patches, D hidden, E projection.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

// The part of a CLIP configuration, or the whole one of a model of one tower. Older files say all of it once more in
// <part>_dict, which then counts.
Config part_of(const Config& config, const std::string& part) {
  if (config.has(part + "_dict")) return config.get_object(part + "_dict");
  return config.has(part) || config.get_string("model_type", "clip") == "clip" ? config.get_object(part) : config;
}

struct CLIPTowerConfig {
  CLIPTowerConfig(const Config& config, bool vision)
      : hidden_size(positive(config, "hidden_size", vision ? 768 : 512)),
        intermediate_size(config.get_int("intermediate_size", vision ? 3072 : 2048)),
        num_hidden_layers(config.get_int("num_hidden_layers", 12)),
        num_attention_heads(positive(config, "num_attention_heads", vision ? 12 : 8)),
        projection_dim(config.get_int("projection_dim", 512)),
        attention_dropout(config.get_float("attention_dropout", 0)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
        factor(config.get_float("initializer_factor", 1)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "quick_gelu")) {
    if (hidden_size % num_attention_heads != 0)
      fail("{}: hidden_size {} is not divisible by num_attention_heads {}", config.where(), hidden_size,
           num_attention_heads);
  }
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, projection_dim;
  double attention_dropout, layer_norm_eps, factor, initializer_range;
  std::string hidden_act;

  // Deviations of new weights.
  double width_deviation() const { return factor / std::sqrt(static_cast<double>(hidden_size)); }
  double deep_deviation() const {
    return width_deviation() / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(num_hidden_layers, 1)));
  }
  Linear::Options projection() const { return {.bias = false, .deviation = width_deviation()}; }
};

struct CLIPTextConfig : CLIPTowerConfig {
  explicit CLIPTextConfig(const Config& config)
      : CLIPTowerConfig(config, false),
        vocab_size(config.get_int("vocab_size", 49408)),
        max_position_embeddings(config.get_int("max_position_embeddings", 77)),
        eos_token_id(config.get_int("eos_token_id", 49407)) {}
  int64_t vocab_size, max_position_embeddings, eos_token_id;
};

struct CLIPVisionConfig : CLIPTowerConfig {
  explicit CLIPVisionConfig(const Config& config)
      : CLIPTowerConfig(config, true),
        num_channels(config.get_int("num_channels", 3)),
        image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 32)) {}
  int64_t num_channels;
  Extents image_size, patch_size;
};

class CLIPEncoderLayer {
 public:
  CLIPEncoderLayer(const Scope& scope, const CLIPTowerConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
        q_proj_(scope / "self_attn" / "q_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
        k_proj_(scope / "self_attn" / "k_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
        v_proj_(scope / "self_attn" / "v_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
        out_proj_(scope / "self_attn" / "out_proj", c.hidden_size, c.hidden_size, {.deviation = c.width_deviation()}),
        layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
        fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size,
             {.deviation = c.width_deviation() / std::sqrt(2.0)}),
        fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size, {.deviation = c.deep_deviation()}),
        attention_dropout_(c.attention_dropout) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".self_attn");
      const Tensor normed = layer_norm1_(x, context);
      attended = multi_head_attention(q_proj_(normed, context), k_proj_(normed, context), v_proj_(normed, context),
                                      heads_, mask, attention_dropout_, context);
    }
    const Tensor h = x + out_proj_(attended, context);
    return h + fc2_(activation(activation_, fc1_(layer_norm2_(h, context), context)), context);
  }

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  LayerNorm layer_norm1_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  LayerNorm layer_norm2_;
  Linear fc1_, fc2_;
  Dropout attention_dropout_;
};

std::vector<CLIPEncoderLayer> encoder_layers(const Scope& scope, const CLIPTowerConfig& c) {
  std::vector<CLIPEncoderLayer> layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(scope / "encoder" / "layers" / i, c);
  return layers;
}

struct TowerOutput {
  Tensor last_hidden_state, pooler_output;  // [B, T, D], [B, D]
  std::vector<Tensor> hidden_states;
};

class CLIPTextTower {
 public:
  CLIPTextTower(const Scope& scope, const CLIPTextConfig& c)
      : c_(c),
        token_embedding_(scope / "embeddings" / "token_embedding", c.vocab_size, c.hidden_size, c.factor * 0.02),
        position_embedding_(scope / "embeddings" / "position_embedding", c.max_position_embeddings, c.hidden_size,
                            c.factor * 0.02),
        layers_(encoder_layers(scope, c)),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps) {}

  TowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, c_.max_position_embeddings);
    if (!in.input_ids.defined()) fail("CLIP takes input_ids: the end-of-text token is found by its id");
    const Tensor x = token_embedding_(in.input_ids, context) + position_embedding_(in.position_ids, context);
    EncoderOutput encoded = through_layers(layers_, x, causal(in), context);
    const Tensor hidden = final_layer_norm_(encoded.last_hidden_state, context);
    return {hidden, at_end_of_text(hidden, in.input_ids), std::move(encoded.hidden_states)};
  }

 private:
  // No token sees a later one, nor padding.
  static Tensor causal(const EncoderInputs& in) {
    const int64_t T = in.length;
    const Tensor seen = cast(less_equal(iota({T, T}, 1), iota({T, T}, 0)), DType::kInt64);
    const Tensor mask = additive_mask(unsqueeze(seen, 0));  // [1, 1, T, T]
    return in.mask.defined() ? minimum(mask, in.mask) : mask;
  }
  // The state at the first end-of-text token. Configurations of before 2023 say 2 for its id, which is not: there it is
  // the highest id of the text.
  Tensor at_end_of_text(const Tensor& hidden, const Tensor& ids) const {
    const Tensor marks =
        c_.eos_token_id == 2
            ? ids
            : cast(equal(ids, full(ids.shape(), static_cast<double>(c_.eos_token_id), ids.dtype())), DType::kInt64);
    const Tensor place = reshape(arg_max(marks, 1), {hidden.dim(0), 1, 1});
    return squeeze(take_along_axis(hidden, broadcast_to(place, {hidden.dim(0), 1, hidden.dim(2)}), 1), 1);
  }

  CLIPTextConfig c_;
  Embedding token_embedding_, position_embedding_;
  std::vector<CLIPEncoderLayer> layers_;
  LayerNorm final_layer_norm_;
};

class CLIPVisionTower {
 public:
  CLIPVisionTower(const Scope& scope, const CLIPVisionConfig& c)
      : c_(c),
        grid_(patch_grid(c.image_size, c.patch_size)),
        class_embedding_(
            scope.parameter("embeddings.class_embedding", {c.hidden_size}, Initial::normal(c.width_deviation()))),
        patch_embedding_(scope / "embeddings" / "patch_embedding", c.num_channels, c.hidden_size, c.patch_size,
                         c.initializer_range * c.factor, false),
        position_embedding_((scope / "embeddings" / "position_embedding")
                                .parameter("weight", {1 + grid_[0] * grid_[1], c.hidden_size},
                                           Initial::normal(c.initializer_range * c.factor))),
        pre_layrnorm_(scope / "pre_layrnorm", c.hidden_size, c.layer_norm_eps),
        layers_(encoder_layers(scope, c)),
        post_layernorm_(scope / "post_layernorm", c.hidden_size, c.layer_norm_eps) {}

  TowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor& image = image_input(inputs, c_.num_channels);
    const Tensor patches = patch_embedding_(image, context);
    const int64_t B = patches.dim(0), D = patches.dim(2);
    const Tensor first = broadcast_to(reshape(cast(class_embedding_->value, patches.dtype()), {1, 1, D}), {B, 1, D});
    const Tensor x = pre_layrnorm_(concatenate({first, patches}, 1) + positions(size_of(image), context), context);
    EncoderOutput encoded = through_layers(layers_, x, Tensor(), context);
    const Tensor& hidden = encoded.last_hidden_state;
    return {hidden, post_layernorm_(squeeze(slice(hidden, 1, 0, 1), 1), context), std::move(encoded.hidden_states)};
  }

 private:
  Tensor positions(Extents size, const ForwardContext& context) const {
    if (!context.interpolate_pos_encoding && size != c_.image_size)
      fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
           c_.image_size[0], c_.image_size[1], size[0], size[1]);
    const Extents grid = patch_grid(size, c_.patch_size);
    const Tensor all = unsqueeze(position_embedding_->value, 0);
    if (size == c_.image_size || (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1])) return all;
    return interpolated_positions(all, 1, grid, context.computing);
  }

  CLIPVisionConfig c_;
  Extents grid_;
  std::shared_ptr<Parameter> class_embedding_;
  PatchEmbeddings patch_embedding_;
  std::shared_ptr<Parameter> position_embedding_;
  LayerNorm pre_layrnorm_;
  std::vector<CLIPEncoderLayer> layers_;
  LayerNorm post_layernorm_;
};

const std::vector<std::string> kTextInputs = {"input_ids", "attention_mask", "position_ids"};

Tensor to_unit_length(const Tensor& x) { return x / sqrt(reduce_sum(x * x, {-1}, true)); }

// Each text should be most like its own image, and each image like its own text: logits [texts, images].
Tensor contrastive_loss(const Tensor& logits, const ForwardContext& context) {
  const auto one_way = [&](const Tensor& rows) { return mean_cross_entropy(rows, iota({rows.dim(0)}, 0), context); };
  return (one_way(logits) + one_way(permute(logits, {1, 0}))) * 0.5;
}

class CLIPModel : public Model {
 public:
  CLIPModel(const Config& config, const Scope& scope)
      : text_config_(part_of(config, "text_config")),
        vision_config_(part_of(config, "vision_config")),
        text_model_(scope / "text_model", text_config_),
        vision_model_(scope / "vision_model", vision_config_),
        text_projection_(scope / "text_projection", text_config_.hidden_size, config.get_int("projection_dim", 512),
                         text_config_.projection()),
        visual_projection_(scope / "visual_projection", vision_config_.hidden_size,
                           config.get_int("projection_dim", 512), vision_config_.projection()),
        logit_scale_(scope.parameter("logit_scale", {},
                                     Initial::constant(config.get_float("logit_scale_init_value", 2.6592)))) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = kTextInputs;
    names.push_back("pixel_values");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors text_inputs;
    for (const std::string& name : kTextInputs)
      if (inputs.find(name).defined()) text_inputs.set(name, inputs.find(name));
    const Tensor image_embeds =
        to_unit_length(visual_projection_(vision_model_(inputs, context).pooler_output, context));
    const Tensor text_embeds =
        to_unit_length(text_projection_(text_model_(text_inputs, context).pooler_output, context));
    const Tensor logits_per_text =
        dot_general(text_embeds, image_embeds, {{}, {}, {1}, {1}}, context.computing) * exp(logit_scale_->value);
    return with_loss(context.return_loss ? contrastive_loss(logits_per_text, context) : Tensor(),
                     {{"logits_per_image", permute(logits_per_text, {1, 0})},
                      {"logits_per_text", logits_per_text},
                      {"text_embeds", text_embeds},
                      {"image_embeds", image_embeds}});
  }

 private:
  CLIPTextConfig text_config_;
  CLIPVisionConfig vision_config_;
  CLIPTextTower text_model_;
  CLIPVisionTower vision_model_;
  Linear text_projection_, visual_projection_;
  std::shared_ptr<Parameter> logit_scale_;
};

// One tower alone, with its projection or without. Traits name the tower's parts.
struct TextTraits {
  using Settings = CLIPTextConfig;
  using Tower = CLIPTextTower;
  static constexpr const char *kPart = "text_config", *kPrefix = "text_model", *kProjection = "text_projection",
                              *kEmbeds = "text_embeds";
  static std::vector<std::string> input_names() { return kTextInputs; }
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
      : config_(part_of(config, Traits::kPart)), tower_(scope / Traits::kPrefix, config_) {}

 protected:
  std::vector<std::string> input_names() const override { return Traits::input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const TowerOutput output = tower_(inputs, context);
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
      : config_(part_of(config, Traits::kPart)),
        tower_(scope / Traits::kPrefix, config_),
        projection_(scope / Traits::kProjection, config_.hidden_size, config_.projection_dim, config_.projection()) {}

 protected:
  std::vector<std::string> input_names() const override { return Traits::input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const TowerOutput output = tower_(inputs, context);
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
        config_(part_of(config, "vision_config")),
        vision_model_(scope / "vision_model", config_),
        classifier_(scope / "classifier", config_.hidden_size, number_of_labels(config),
                    {.deviation = config_.width_deviation()}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const TowerOutput output = vision_model_(inputs, context);
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

// optimum-onnx exports the tower of texts without a mask: what is behind the end of a text is not seen before it.
FamilyInputs tower_text_inputs() {
  FamilyInputs inputs = placed_text_inputs();
  inputs[0].table.fields = {"text_config.vocab_size"};
  inputs[1].exported = FamilyInput::Export::kNever;
  return inputs;
}
FamilyInputs vision_inputs() { return {sized_pixels("vision_config")}; }
FamilyInputs both_inputs() {
  FamilyInputs inputs = tower_text_inputs();
  inputs[1].exported = FamilyInput::Export::kAlways;
  inputs.insert(inputs.begin() + 1, sized_pixels("vision_config"));
  return inputs;
}

std::vector<Architecture> text_architectures() {
  return {{"CLIPTextModel", body_head({}, {"last_hidden_state", "pooler_output"}),
           make_model<CLIPTowerModel<TextTraits>>, tower_text_inputs()},
          {"CLIPTextModelWithProjection", projection_head("text_projection", "text_embeds"),
           make_model<CLIPTowerModelWithProjection<TextTraits>>, tower_text_inputs()}};
}
std::vector<Architecture> vision_architectures() {
  return {{"CLIPVisionModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
           make_model<CLIPTowerModel<VisionTraits>>, vision_inputs()},
          {"CLIPVisionModelWithProjection", projection_head("visual_projection", "image_embeds"),
           make_model<CLIPTowerModelWithProjection<VisionTraits>>, vision_inputs()}};
}

}  // namespace

static Family clip_family() {
  std::vector<Architecture> all{{"CLIPModel",
                                 {.task = HeadTask::kContrastive,
                                  .pipelines = {"zero-shot-image-classification"},
                                  .labels = HeadLabels::kPairs,
                                  .modules = {"text_projection", "visual_projection", "logit_scale"},
                                  .vocabulary = none,
                                  .outputs = {"logits_per_image", "logits_per_text", "text_embeds", "image_embeds"}},
                                 make_model<CLIPModel>},
                                {"CLIPForImageClassification", image_classification_head({"classifier"}),
                                 make_model<CLIPForImageClassification>, vision_inputs()}};
  for (const auto& part : {text_architectures(), vision_architectures()})
    all.insert(all.end(), part.begin(), part.end());
  return {.model_type = "clip",
          .base_prefix = "clip",
          .architectures = all,
          .inputs = both_inputs(),
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
          .inputs = tower_text_inputs(),
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
                      .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}
static Family clip_vision_family() {
  return {.model_type = "clip_vision_model",
          .base_prefix = "vision_model",
          .architectures = vision_architectures(),
          .inputs = vision_inputs(),
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
