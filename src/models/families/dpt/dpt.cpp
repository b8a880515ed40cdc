// SPDX-License-Identifier: Apache-2.0
// DPT (Ranftl et al., 2021): a ViT, or for depth a DINOv2, of which some layers are made to maps and fused; and heads
// that give the depth or the class of each pixel. B batch, h x w patches, D hidden.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/families/dinov2/dinov2_body.h"
#include "models/families/dpt/dpt_neck.h"
#include "models/families/vit/vit_body.h"
#include "models/nn/losses/pixel_losses.h"

namespace transom {
namespace {

struct DPTConfig {
  explicit DPTConfig(const Config& config)
      : vit(with_defaults(config, R"({"image_size": 384})")),
        neck(dpt_neck_shape(config, {96, 192, 384, 768}, 256)),
        layers(config.get_ints("backbone_out_indices", {2, 5, 8, 11})),
        head_map(dpt_head_map(config, neck.widths.size())),
        num_labels(number_of_labels(config)),
        ignore_index(config.get_int("semantic_loss_ignore_index", 255)),
        auxiliary_weight(config.get_float("auxiliary_loss_weight", 0.4)),
        classifier_dropout(config.get_float("semantic_classifier_dropout", 0.1)),
        add_projection(config.get_bool("add_projection", false)),
        has_auxiliary_head(config.get_bool("use_auxiliary_head", true)) {
    if (config.get_bool("is_hybrid", false))
      fail(ErrorKind::kUnsupported, "{}: is_hybrid, a ViT behind a BiT, is not carried out", config.where());
    config.get_json("backbone_featmap_shape"), config.get_json("neck_ignore_stages");  // of hybrids
    const std::string readout = config.get_string("readout_type", "project");
    if (readout != "project" && readout != "add" && readout != "ignore")
      fail("{}: readout_type: expected project, add or ignore, found {}", config.where(), quoted(readout));
    neck.states = vit.hidden_size;
    neck.readout = readout == "project" ? DPTReadout::kProject
                   : readout == "add"   ? DPTReadout::kAdd
                                        : DPTReadout::kIgnore;
    neck.activation = vit.hidden_act;
    neck.norms = config.get_bool("use_batch_norm_in_fusion_residual", false);
    neck.bias = config.get_bool("use_bias_in_fusion_residual", !neck.norms);
    neck.doubles = true;
  }

  // The layers of the ViT that are looked at, in their order.
  void expect_layers(const Config& config) {
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    for (const int64_t layer : layers)
      if (layer < 0 || layer >= vit.num_hidden_layers)
        fail("{}: backbone_out_indices: expected numbers from 0 to {}, found {}", config.where(),
             vit.num_hidden_layers - 1, layer);
    if (layers.size() != neck.widths.size())
      fail("{}: backbone_out_indices: expected {} layers, one for each of neck_hidden_sizes, found {}", config.where(),
           neck.widths.size(), layers.size());
  }

  ViTConfig vit;
  DPTNeckShape neck;
  std::vector<int64_t> layers;
  size_t head_map;
  int64_t num_labels, ignore_index;
  double auxiliary_weight, classifier_dropout;
  bool add_projection, has_auxiliary_head;
};

// Of a grid [h, w, D].
Tensor dpt_bilinear(const Tensor& x, int64_t height, int64_t width, const Computing& computing) {
  const Tensor map = reshape(permute(x, {2, 0, 1}), {1, x.dim(2), x.dim(0), x.dim(1)});
  return permute(resize_bilinear(map, height, width, false, computing), {0, 2, 3, 1});
}

// Classes that read the ViT of DPT alone.
const Config& expect_no_dpt_backbone(const Config& config) {
  if (config.has("backbone_config"))
    fail("{}: backbone_config: expected none, as only DPTForDepthEstimation reads a backbone", config.where());
  return config;
}

// The ViT of DPT, whose positions follow the extents of the picture.
class DPTBody {
 public:
  DPTBody(const Scope& scope, const ViTConfig& c)
      : c_(c),
        grid_(patch_grid(c.image_size, c.patch_size)),
        cls_token_((scope / "embeddings").parameter("cls_token", {1, 1, c.hidden_size}, Initial::zeros())),
        position_embeddings_(
            (scope / "embeddings")
                .parameter("position_embeddings", {1, 1 + grid_[0] * grid_[1], c.hidden_size}, Initial::zeros())),
        patch_embeddings_(scope / "embeddings" / "patch_embeddings" / "projection", c.num_channels, c.hidden_size,
                          c.patch_size, c.initializer_range),
        dropout_(c.hidden_dropout_prob),
        layernorm_(scope / "layernorm", c.hidden_size, c.layer_norm_eps) {
    if (grid_[0] != grid_[1] || c.patch_size[0] != c.patch_size[1])
      fail("config.json: image_size and patch_size: expected squares, of whose positions others are made");
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
  }

  Extents grid_of(const NamedTensors& inputs) const {
    return patch_grid(size_of(image_input(inputs, c_.num_channels)), c_.patch_size);
  }
  // What each layer gives, behind what goes into the first: [B, 1 + h w, D].
  std::vector<Tensor> states(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor patches = patch_embeddings_(image_input(inputs, c_.num_channels), context);
    const Tensor first = broadcast_to(cast(cls_token_->value, patches.dtype()), {patches.dim(0), 1, patches.dim(2)});
    const Extents grid = grid_of(inputs);
    Tensor positions = position_embeddings_->value;
    if (grid != grid_) positions = interpolated_positions(positions, 1, grid, context.computing, dpt_bilinear);
    std::vector<Tensor> states{dropout_(concatenate({first, patches}, 1) + positions, context)};
    for (const ViTLayer& layer : layers_) states.push_back(layer(states.back(), Tensor(), context));
    return states;
  }
  Tensor normed(const Tensor& x, ForwardContext& context) const { return layernorm_(x, context); }

 private:
  ViTConfig c_;
  Extents grid_;
  std::shared_ptr<Parameter> cls_token_, position_embeddings_;
  PatchEmbeddings patch_embeddings_;
  Dropout dropout_;
  std::vector<ViTLayer> layers_;
  LayerNorm layernorm_;
};

class DPTModel : public Model {
 public:
  DPTModel(const Config& config, const Scope& scope)
      : c_(expect_no_dpt_backbone(config)),
        body_(scope, c_.vit),
        pooler_(scope / "pooler" / "dense", c_.vit.hidden_size, c_.vit.pooler_output_size, c_.vit.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::vector<Tensor> states = body_.states(inputs, context);
    const Tensor last = body_.normed(states.back(), context);
    const Tensor first = squeeze(slice(last, 1, 0, 1), 1);
    NamedTensors outputs{{"last_hidden_state", last},
                         {"pooler_output", activation(c_.vit.pooler_act, pooler_(first, context))}};
    if (context.output_hidden_states) add_hidden_states(outputs, states);
    return outputs;
  }

 private:
  DPTConfig c_;
  DPTBody body_;
  Linear pooler_;
};

// The states of the layers that the neck reads: of the ViT of DPT, or of a backbone.
class DPTLayers {
 public:
  DPTLayers(const Config& config, const Scope& scope, DPTConfig& c) {
    if (!config.has("backbone_config")) {
      c.expect_layers(config);
      vit_.emplace(scope / "dpt", c.vit);
      layers_ = c.layers;
      return;
    }
    const Config backbone = config.get_object("backbone_config");
    refuse_unless(backbone, "model_type", kDinov2ModelType);
    refuse_unless(backbone, "reshape_hidden_states", "false");
    const Dinov2Config dinov2(backbone);
    layers_ = dinov2_backbone_layers(backbone);
    if (layers_.size() != c.neck.widths.size())
      fail("{}: out_indices: expected {} layers, one for each of neck_hidden_sizes, found {}", backbone.where(),
           c.neck.widths.size(), layers_.size());
    c.neck.states = dinov2.hidden_size;
    channels_ = dinov2.num_channels;
    patch_ = backbone.get_pair("patch_size", 14);
    norms_ = backbone.get_bool("apply_layernorm", true);
    dinov2_.emplace(scope / "backbone", dinov2);
  }

  Extents grid_of(const NamedTensors& inputs) const {
    return vit_ ? vit_->grid_of(inputs) : patch_grid(size_of(image_input(inputs, channels_)), patch_);
  }
  std::vector<Tensor> operator()(const NamedTensors& inputs, ForwardContext& context) const {
    if (dinov2_) return dinov2_->states_of(layers_, inputs, norms_, context);
    const std::vector<Tensor> states = vit_->states(inputs, context);
    std::vector<Tensor> chosen;
    for (const int64_t layer : layers_) chosen.push_back(states[static_cast<size_t>(layer) + 1]);
    return chosen;
  }

 private:
  std::optional<DPTBody> vit_;
  std::optional<Dinov2Body> dinov2_;
  std::vector<int64_t> layers_;
  int64_t channels_ = 3;
  Extents patch_{};
  bool norms_ = true;
};

// At twice the extents.
Tensor dpt_doubled(const Tensor& x, const ForwardContext& context) {
  return resize_bilinear(x, 2 * x.dim(2), 2 * x.dim(3), true, context.computing);
}

class DPTForDepthEstimation : public Model {
 public:
  DPTForDepthEstimation(const Config& config, const Scope& scope)
      : c_(config), layers_(config, scope, c_), neck_(scope / "neck", c_.neck) {
    const Scope head = scope / "head";
    const double deviation = c_.neck.deviation;
    if (c_.add_projection) {
      if (c_.neck.fused != kProjected)
        fail("{}: add_projection: expected fusion_hidden_size {}, found {}", config.where(), kProjected, c_.neck.fused);
      projection_.emplace(head / "projection", kProjected, kProjected, Axes{3, 3}, dpt_window(deviation, 3));
    }
    const auto add = [&](int64_t at, int64_t in, int64_t out, int64_t window) {
      head_.emplace_back(head / "head" / at, in, out, Axes{window, window}, dpt_window(deviation, window));
    };
    add(0, c_.neck.fused, c_.neck.fused / 2, 3);
    add(2, c_.neck.fused / 2, kLast, 3);
    add(4, kLast, 1, 1);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    Tensor x = neck_(layers_(inputs, context), layers_.grid_of(inputs), context)[c_.head_map];
    if (projection_) x = relu((*projection_)(x, context));
    const Tensor large = dpt_doubled(head_[0](x, context), context);
    return {{"predicted_depth", squeeze(relu(head_[2](relu(head_[1](large, context)), context)), 1)}};
  }

 private:
  static constexpr int64_t kProjected = 256, kLast = 32;
  DPTConfig c_;
  DPTLayers layers_;
  DPTNeck neck_;
  std::optional<Convolution> projection_;
  std::vector<Convolution> head_;
};

// A convolution with a norm, and the classes of each place.
class DPTClassHead {
 public:
  DPTClassHead(const Scope& scope, const DPTConfig& c, double dropout)
      : convolution_(scope / 0, c.neck.fused, c.neck.fused, {3, 3}, dpt_window(c.neck.deviation, 3, false)),
        norm_(scope / 1, c.neck.fused),
        dropout_(dropout),
        classifier_(scope / 4, c.neck.fused, c.num_labels, {1, 1}, dpt_window(c.neck.deviation, 1)) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return classifier_(dropout_(relu(norm_(convolution_(x, context), context)), context), context);
  }

 private:
  Convolution convolution_;
  BatchNorm norm_;
  Dropout dropout_;
  Convolution classifier_;
};

class DPTForSemanticSegmentation : public Model {
 public:
  DPTForSemanticSegmentation(const Config& config, const Scope& scope)
      : c_(expect_no_dpt_backbone(config)),
        body_(scope / "dpt", c_.vit),
        neck_(scope / "neck", c_.neck),
        head_(scope / "head" / "head", c_, c_.classifier_dropout) {
    c_.expect_layers(config);
    constexpr double kDropout = 0.1;  // whatever the configuration says
    if (c_.has_auxiliary_head) auxiliary_head_.emplace(scope / "auxiliary_head" / "head", c_, kDropout);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::vector<Tensor> states = body_.states(inputs, context);
    std::vector<Tensor> chosen;
    for (const int64_t layer : c_.layers) chosen.push_back(states[static_cast<size_t>(layer) + 1]);
    const std::vector<Tensor> maps = neck_(chosen, body_.grid_of(inputs), context);
    const Tensor logits = dpt_doubled(head_(maps[c_.head_map], context), context), labels = inputs.find("labels");
    Tensor loss;
    if (labels.defined()) {
      if (c_.num_labels == 1)
        fail("labels: expected a model of two classes or more, whose loss tells them apart, found one class");
      loss = pixel_loss(logits, labels, c_.ignore_index, context);
      if (auxiliary_head_)
        loss = loss + pixel_loss((*auxiliary_head_)(maps.back(), context), labels, c_.ignore_index, context) *
                          c_.auxiliary_weight;
    }
    NamedTensors outputs = with_loss(loss, {{"logits", logits}});
    if (context.output_hidden_states) add_hidden_states(outputs, states);
    return outputs;
  }

 private:
  DPTConfig c_;
  DPTBody body_;
  DPTNeck neck_;
  DPTClassHead head_;
  std::optional<DPTClassHead> auxiliary_head_;
};

}  // namespace

static Family dpt_family() {
  return {
      .model_type = "dpt",
      .base_prefix = "dpt",
      .architectures = {{"DPTModel",
                         body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<DPTModel>},
                        {"DPTForDepthEstimation",
                         {.task = HeadTask::kDepth,
                          .pipelines = {"depth-estimation"},
                          .labels = HeadLabels::kNone,
                          .modules = {"neck", "head"},
                          .vocabulary = none,
                          .outputs = {"predicted_depth"}},
                         make_model<DPTForDepthEstimation>},
                        {"DPTForSemanticSegmentation", semantic_segmentation_head({"neck", "head", "auxiliary_head"}),
                         make_model<DPTForSemanticSegmentation>}},
      .inputs = {pixels_of_any_size()},
      .processors =
          {.tokenizer = none, .image_processor = "DPT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kDPTFamily{dpt_family};

}  // namespace transom
