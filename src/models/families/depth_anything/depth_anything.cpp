// SPDX-License-Identifier: Apache-2.0
// Depth Anything (Yang et al., 2024): DINOv2, of which four layers are reassembled to maps of several resolutions and
// fused from the coarsest on, as in DPT (Ranftl et al., 2021), and a head that gives the depth of each pixel.
// B batch, C channels, h x w patches, D hidden.
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/dinov2/dinov2_body.h"
#include "models/nn/vision/upsampling.h"

namespace transom {
namespace {

struct DepthAnythingConfig {
  explicit DepthAnythingConfig(const Config& config)
      : backbone(backbone_of(config)),
        backbone_layers(layers_of(config)),
        neck_hidden_sizes(config.get_ints("neck_hidden_sizes", {48, 96, 192, 384})),
        reassemble_hidden_size(positive(config, "reassemble_hidden_size", 384)),
        fusion_hidden_size(positive(config, "fusion_hidden_size", 64)),
        head_hidden_size(positive(config, "head_hidden_size", 32)),
        patch_size(positive(config, "patch_size", 14)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        max_depth(config.get_float("max_depth", 1)),
        apply_layernorm(backbone_config(config).get_bool("apply_layernorm", true)) {
    const Json factors = parse_json(config.get_json("reassemble_factors"), config.where());
    for (const Json& factor : factors.is_null() ? Json{4, 2, 1, 0.5} : factors) {
      if (!factor.is_number()) fail("{}: reassemble_factors: expected numbers", config.where());
      reassemble_factors.push_back(factor.get<double>());
    }
    const std::string type = config.get_string("depth_estimation_type", "relative");
    if (type != "relative" && type != "metric")
      fail("{}: depth_estimation_type: expected relative or metric, found {}", config.where(), quoted(type));
    metric = type == "metric";
    const auto stages = static_cast<int64_t>(neck_hidden_sizes.size());
    if (static_cast<int64_t>(reassemble_factors.size()) != stages ||
        static_cast<int64_t>(backbone_layers.size()) != stages)
      fail(
          "{}: expected as many reassemble_factors and out_indices of the backbone as neck_hidden_sizes, {}; found {} "
          "and {}",
          config.where(), stages, reassemble_factors.size(), backbone_layers.size());
    const int64_t chosen = config.get_int("head_in_index", -1);
    head_in_index = chosen < 0 ? chosen + stages : chosen;
    if (head_in_index < 0 || head_in_index >= stages)
      fail("{}: head_in_index: expected one of {} maps, found {}", config.where(), stages, chosen);
    if (reassemble_hidden_size != backbone.hidden_size)
      fail("{}: reassemble_hidden_size: expected the hidden_size of the backbone, {}, found {}", config.where(),
           backbone.hidden_size, reassemble_hidden_size);
  }

  static Config backbone_config(const Config& config) {
    refuse_unless(config, "use_timm_backbone", "false");
    if (!config.has("backbone_config"))
      return with_defaults(Config::parse("{}", config.where()),
                           R"({"image_size": 518, "hidden_size": 384, "num_attention_heads": 6,
                               "out_indices": [9, 10, 11, 12], "reshape_hidden_states": false})");
    const Config backbone = config.get_object("backbone_config");
    refuse_unless(backbone, "model_type", kDinov2ModelType);
    refuse_unless(backbone, "reshape_hidden_states", "false");
    return backbone;
  }
  static Dinov2Config backbone_of(const Config& config) { return Dinov2Config(backbone_config(config)); }

  // out_indices, else out_features ("stage9"; "stem" are the embeddings), else the last one.
  static std::vector<int64_t> layers_of(const Config& config) {
    const Config backbone = backbone_config(config);
    const int64_t last = backbone.get_int("num_hidden_layers", 12);
    std::vector<int64_t> layers;
    if (backbone.has("out_indices")) layers = backbone.get_ints("out_indices", {});
    else if (backbone.has("out_features")) {
      for (const std::string& name : backbone.get_strings("out_features"))
        for (int64_t i = 0; i <= last; ++i)
          if (name == (i == 0 ? "stem" : "stage" + std::to_string(i))) layers.push_back(i);
    } else layers = {last};
    for (int64_t& layer : layers) {
      if (layer < 0) layer += last + 1;
      if (layer < 0 || layer > last)
        fail("{}: out_indices: expected numbers from 0 to {}, the layers of the backbone", backbone.where(), last);
    }
    return layers;
  }

  Convolution::Options window(int64_t extent, int64_t stride = 1, bool bias = true) const {
    Convolution::Options options = Convolution::same(extent, stride, 1, bias);
    options.deviation = initializer_range;
    return options;
  }

  Dinov2Config backbone;
  std::vector<int64_t> backbone_layers, neck_hidden_sizes;
  std::vector<double> reassemble_factors;
  int64_t reassemble_hidden_size, fusion_hidden_size, head_hidden_size, patch_size, head_in_index = 0;
  double initializer_range, max_depth;
  bool apply_layernorm, metric = false;
};

// States of patches as a map [B, channels, factor h, factor w].
class ReassembleLayer {
 public:
  ReassembleLayer(const Scope& scope, const DepthAnythingConfig& c, int64_t channels, double factor)
      : projection_(scope / "projection", c.reassemble_hidden_size, channels, {1, 1}, c.window(1)) {
    if (factor > 1) larger_.emplace(scope / "resize", channels, channels, whole(factor), c.initializer_range);
    else if (factor < 1)
      smaller_.emplace(scope / "resize", channels, channels, Axes{3, 3},
                       Convolution::Options{.strides = {whole(1 / factor), whole(1 / factor)},
                                            .low = {1, 1},
                                            .high = {1, 1},
                                            .deviation = c.initializer_range});
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor y = projection_(x, context);
    return larger_ ? (*larger_)(y, context) : smaller_ ? (*smaller_)(y, context) : y;
  }

 private:
  static int64_t whole(double factor) {
    if (!(factor >= 1 && factor <= 1024)) fail("config.json: reassemble_factors: expected 1/1024 to 1024");
    return static_cast<int64_t>(factor);
  }

  Convolution projection_;
  std::optional<PixelEnlargement> larger_;
  std::optional<Convolution> smaller_;
};

class ResidualLayer {
 public:
  ResidualLayer(const Scope& scope, const DepthAnythingConfig& c)
      : convolution1_(scope / "convolution1", c.fusion_hidden_size, c.fusion_hidden_size, {3, 3}, c.window(3)),
        convolution2_(scope / "convolution2", c.fusion_hidden_size, c.fusion_hidden_size, {3, 3}, c.window(3)) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return convolution2_(relu(convolution1_(relu(x), context)), context) + x;
  }

 private:
  Convolution convolution1_, convolution2_;
};

// What is fused so far with the next finer map, at the size of the one behind.
class FusionLayer {
 public:
  FusionLayer(const Scope& scope, const DepthAnythingConfig& c)
      : projection_(scope / "projection", c.fusion_hidden_size, c.fusion_hidden_size, {1, 1}, c.window(1)),
        residual_layer1_(scope / "residual_layer1", c),
        residual_layer2_(scope / "residual_layer2", c) {}
  Tensor operator()(Tensor x, const Tensor& finer, Extents size, ForwardContext& context) const {
    const Computing& computing = context.computing;
    if (finer.defined()) {
      const bool fits = finer.shape() == x.shape();
      x = x + residual_layer1_(fits ? finer : resize_bilinear(finer, x.dim(2), x.dim(3), false, computing), context);
    }
    return projection_(resize_bilinear(residual_layer2_(x, context), size[0], size[1], true, computing), context);
  }

 private:
  Convolution projection_;
  ResidualLayer residual_layer1_, residual_layer2_;
};

class DepthAnythingNeck {
 public:
  DepthAnythingNeck(const Scope& scope, const DepthAnythingConfig& c) {
    for (size_t i = 0; i < c.neck_hidden_sizes.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      const int64_t channels = c.neck_hidden_sizes[i];
      reassemble_.emplace_back(scope / "reassemble_stage" / "layers" / number, c, channels, c.reassemble_factors[i]);
      convs_.emplace_back(scope / "convs" / number, channels, c.fusion_hidden_size, Axes{3, 3}, c.window(3, 1, false));
      fusion_.emplace_back(scope / "fusion_stage" / "layers" / number, c);
    }
  }

  // The maps of all stages of the fusion, the coarsest first.
  std::vector<Tensor> operator()(const std::vector<Tensor>& states, Extents grid, ForwardContext& context) const {
    std::vector<Tensor> maps;
    for (size_t i = 0; i < states.size(); ++i) {
      const Tensor patches = slice(states[i], 1, 1, states[i].dim(1));  // without the class token
      const Tensor map = reshape(permute(patches, {0, 2, 1}), {patches.dim(0), patches.dim(2), grid[0], grid[1]});
      maps.push_back(convs_[i](reassemble_[i](map, context), context));
    }
    std::vector<Tensor> fused;
    for (size_t i = 0; i < maps.size(); ++i) {
      const Tensor& map = maps[maps.size() - 1 - i];
      const Tensor& before = i == 0 ? map : fused.back();
      const Extents size =
          i + 1 < maps.size() ? size_of(maps[maps.size() - 2 - i]) : Extents{2 * before.dim(2), 2 * before.dim(3)};
      fused.push_back(fusion_[i](before, i == 0 ? Tensor() : map, size, context));
    }
    return fused;
  }

 private:
  std::vector<ReassembleLayer> reassemble_;
  std::vector<Convolution> convs_;
  std::vector<FusionLayer> fusion_;
};

class DepthHead {
 public:
  DepthHead(const Scope& scope, const DepthAnythingConfig& c)
      : metric_(c.metric),
        max_depth_(c.max_depth),
        conv1_(scope / "conv1", c.fusion_hidden_size, c.fusion_hidden_size / 2, {3, 3}, c.window(3)),
        conv2_(scope / "conv2", c.fusion_hidden_size / 2, c.head_hidden_size, {3, 3}, c.window(3)),
        conv3_(scope / "conv3", c.head_hidden_size, 1, {1, 1}, c.window(1)) {}
  Tensor operator()(const Tensor& map, Extents size, ForwardContext& context) const {  // -> [B, height, width]
    const Tensor large = resize_bilinear(conv1_(map, context), size[0], size[1], true, context.computing);
    const Tensor x = conv3_(relu(conv2_(large, context)), context);
    return squeeze((metric_ ? sigmoid(x) : relu(x)) * max_depth_, 1);
  }

 private:
  bool metric_;
  double max_depth_;
  Convolution conv1_, conv2_, conv3_;
};

class DepthAnythingForDepthEstimation : public Model {
 public:
  DepthAnythingForDepthEstimation(const Config& config, const Scope& scope)
      : config_(config),
        backbone_(scope / "backbone", config_.backbone),
        neck_(scope / "neck", config_),
        head_(scope / "head", config_) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Extents grid = patch_grid(size_of(image_input(inputs, config_.backbone.num_channels)),
                                    {config_.patch_size, config_.patch_size});
    const std::vector<Tensor> states =
        backbone_.states_of(config_.backbone_layers, inputs, config_.apply_layernorm, context);
    const std::vector<Tensor> maps = neck_(states, grid, context);
    const Extents size{grid[0] * config_.patch_size, grid[1] * config_.patch_size};
    return {{"predicted_depth", head_(maps[static_cast<size_t>(config_.head_in_index)], size, context)}};
  }

 private:
  DepthAnythingConfig config_;
  Dinov2Body backbone_;
  DepthAnythingNeck neck_;
  DepthHead head_;
};

}  // namespace

static Family depth_anything_family() {
  return {.model_type = "depth_anything",
          .base_prefix = "",
          .architectures = {{"DepthAnythingForDepthEstimation",
                             {.task = HeadTask::kDepth,
                              .pipelines = {"depth-estimation"},
                              .labels = HeadLabels::kNone,
                              .modules = {"neck", "head"},
                              .vocabulary = none,
                              .outputs = {"predicted_depth"}},
                             make_model<DepthAnythingForDepthEstimation>}},
          .inputs = {sized_pixels("backbone_config")},
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

const RegisterFamilies kDepthAnythingFamily{depth_anything_family};

}  // namespace transom
