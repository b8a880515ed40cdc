// SPDX-License-Identifier: Apache-2.0
// YOLOS (Fang et al., 2021): a ViT that reads, behind the patches of a picture, as many tokens as it may find objects.
// B batch, P patches, Q tokens of objects, T = 1 + P + Q tokens, D hidden.
#include "models/families/detr/detr_config.h"
#include "models/families/vit/vit_body.h"
#include "models/nn/vision/stacked_layers.h"

namespace transom {
namespace {

struct YolosConfig : ViTConfig {
  explicit YolosConfig(const Config& config)
      : ViTConfig(with_defaults(config, R"({"image_size": [512, 864]})")),
        num_detection_tokens(positive(config, "num_detection_tokens", 100)),
        use_mid_position_embeddings(config.get_bool("use_mid_position_embeddings", true)),
        auxiliary_loss(config.get_bool("auxiliary_loss", false)),
        weights(detection_weights(config)) {
    for (size_t axis = 0; axis < 2; ++axis)
      if (patch_size[axis] < 1 || image_size[axis] % patch_size[axis] != 0)
        fail("{}: image_size: expected multiples of patch_size, {}, found {}", config.where(), patch_size[axis],
             image_size[axis]);
  }
  int64_t num_detection_tokens;
  bool use_mid_position_embeddings, auxiliary_loss;
  DetectionWeights weights;

  Extents grid() const { return patch_grid(image_size, patch_size); }
  Shape positions() const { return {1, 1 + grid()[0] * grid()[1] + num_detection_tokens, hidden_size}; }
};

// Positions [1, T, D] of a grid of patches, with those of the class before and of the objects behind them, for another
// grid.
Tensor yolos_positions(const Tensor& all, Extents from, Extents to, const Computing& computing) {
  if (from == to) return all;
  const int64_t P = from[0] * from[1], D = all.dim(2);
  const Tensor map = reshape(slice(all, 1, 1, 1 + P), {from[0], from[1], D});
  const Tensor resized = reshape(resize_bicubic(map, to[0], to[1], computing), {1, to[0] * to[1], D});
  return concatenate({slice(all, 1, 0, 1), resized, slice(all, 1, 1 + P, all.dim(1))}, 1);
}

class YolosEmbeddings {
 public:
  YolosEmbeddings(const Scope& scope, const YolosConfig& c)
      : num_channels_(c.num_channels),
        grid_(c.grid()),
        cls_token_(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range))),
        detection_tokens_(scope.parameter("detection_tokens", {1, c.num_detection_tokens, c.hidden_size},
                                          Initial::normal(c.initializer_range))),
        position_embeddings_(
            scope.parameter("position_embeddings", c.positions(), Initial::normal(c.initializer_range))),
        patch_embeddings_(scope / "patch_embeddings" / "projection", c.num_channels, c.hidden_size, c.patch_size,
                          c.initializer_range),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const NamedTensors& inputs, Extents grid, ForwardContext& context) const {  // -> [B, T, D]
    const Tensor patches = patch_embeddings_(image_input(inputs, num_channels_), context);
    const auto of_batch = [&](const std::shared_ptr<Parameter>& tokens) {
      const Shape shape{patches.dim(0), tokens->value.dim(1), patches.dim(2)};
      return broadcast_to(cast(tokens->value, patches.dtype()), shape);
    };
    const Tensor x = concatenate({of_batch(cls_token_), patches, of_batch(detection_tokens_)}, 1);
    return dropout_(x + yolos_positions(position_embeddings_->value, grid_, grid, context.computing), context);
  }

 private:
  int64_t num_channels_;
  Extents grid_;
  std::shared_ptr<Parameter> cls_token_, detection_tokens_, position_embeddings_;
  PatchEmbeddings patch_embeddings_;
  Dropout dropout_;
};

// A layer that reads what the one before gave with positions of its own added.
struct YolosPlacedLayer {
  const ViTLayer& layer;
  Tensor positions;  // [1, T, D] of the configured grid; undefined: none
  Extents from, to;
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    if (!positions.defined()) return layer(x, mask, context);
    return layer(x + yolos_positions(positions, from, to, context.computing), mask, context);
  }
};

class YolosBody {
 public:
  YolosBody(const Scope& scope, const YolosConfig& c)
      : c_(c), embeddings_(scope / "embeddings", c), layernorm_(scope / "layernorm", c.hidden_size, c.layer_norm_eps) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
    Shape between = c.positions();
    between.insert(between.begin(), c.num_hidden_layers - 1);
    if (c.use_mid_position_embeddings && c.num_hidden_layers > 1)
      mid_position_embeddings_ = (scope / "encoder").parameter("mid_position_embeddings", between, Initial::zeros());
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Extents grid = patch_grid(size_of(image_input(inputs, c_.num_channels)), c_.patch_size);
    std::vector<YolosPlacedLayer> placed;
    for (size_t i = 0; i < layers_.size(); ++i)
      placed.push_back({layers_[i], positions_before(static_cast<int64_t>(i)), c_.grid(), grid});
    EncoderOutput output = through_layers(placed, embeddings_(inputs, grid, context), Tensor(), context);
    output.last_hidden_state = layernorm_(output.last_hidden_state, context);
    return output;
  }

 private:
  Tensor positions_before(int64_t layer) const {
    if (!mid_position_embeddings_ || layer == 0) return {};
    return squeeze(slice(mid_position_embeddings_->value, 0, layer - 1, layer), 0);
  }

  YolosConfig c_;
  YolosEmbeddings embeddings_;
  std::vector<ViTLayer> layers_;
  std::shared_ptr<Parameter> mid_position_embeddings_;  // [layers - 1, 1, T, D]; null: none
  LayerNorm layernorm_;
};

// pixel_mask is what processors give beside padded pictures: the model sees the padding as it sees the picture.
const std::vector<std::string> kYolosInputs = {"pixel_values", "pixel_mask"};

class YolosModel : public Model {
 public:
  YolosModel(const Config& config, const Scope& scope)
      : c_(config),
        vit_(scope, c_),
        pooler_(scope / "pooler" / "dense", c_.hidden_size, c_.hidden_size, c_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return kYolosInputs; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = vit_(inputs, context);
    const Tensor first = squeeze(slice(encoded.last_hidden_state, 1, 0, 1), 1);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state},
                         {"pooler_output", tanh(pooler_(first, context))}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  YolosConfig c_;
  YolosBody vit_;
  Linear pooler_;
};

class YolosForObjectDetection : public Model {
 public:
  YolosForObjectDetection(const Config& config, const Scope& scope)
      : c_(config),
        vit_(scope / "vit", c_),
        class_labels_classifier_(scope / "class_labels_classifier", c_.hidden_size, c_.num_labels + 1, 3,
                                 c_.initializer_range),
        bbox_predictor_(scope / "bbox_predictor", c_.hidden_size, 4, 3, c_.initializer_range) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "pixel_mask", "class_labels", "boxes"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = vit_(inputs, context);
    const int64_t T = encoded.last_hidden_state.dim(1);
    const Tensor objects = slice(encoded.last_hidden_state, 1, T - c_.num_detection_tokens, T);
    const Tensor logits = class_labels_classifier_(objects, context),
                 boxes = sigmoid(bbox_predictor_(objects, context));
    const BoxLabels labels = box_labels(inputs, c_.num_labels);
    Tensor loss;
    if (labels.boxes.defined()) {
      // Transformers fails there, too: it gives its heads all tokens of all layers as one tuple.
      if (c_.auxiliary_loss)
        fail(ErrorKind::kUnsupported, "{}: auxiliary_loss: expected false with labels, found true", config().where());
      loss = detection_loss(logits, boxes, labels, c_.weights, context);
    }
    NamedTensors outputs =
        with_loss(loss, {{"logits", logits}, {"pred_boxes", boxes}, {"last_hidden_state", encoded.last_hidden_state}});
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  YolosConfig c_;
  YolosBody vit_;
  StackedLayers class_labels_classifier_, bbox_predictor_;
};

}  // namespace

static Family yolos_family() {
  return {
      .model_type = "yolos",
      .base_prefix = "vit",
      .architectures = {{"YolosModel",
                         body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<YolosModel>},
                        {"YolosForObjectDetection",
                         {.task = HeadTask::kObjectDetection,
                          .pipelines = {"object-detection"},
                          .labels = HeadLabels::kBoxes,
                          .modules = {"class_labels_classifier", "bbox_predictor"},
                          .vocabulary = none,
                          .outputs = {"logits", "pred_boxes", "last_hidden_state"}},
                         make_model<YolosForObjectDetection>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "Yolos", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kYolosFamily{yolos_family};

}  // namespace transom
