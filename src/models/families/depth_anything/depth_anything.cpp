// SPDX-License-Identifier: Apache-2.0
// Depth Anything (Yang et al., 2024): DINOv2, of which four layers are reassembled to maps of several resolutions and
// fused as in DPT (Ranftl et al., 2021), and a head that gives the depth of each pixel.
// B batch, C channels, h x w patches, D hidden.
#include "base/error.h"
#include "models/families/dinov2/dinov2_body.h"
#include "models/families/dpt/dpt_neck.h"

namespace transom {
namespace {

struct DepthAnythingConfig {
  explicit DepthAnythingConfig(const Config& config)
      : backbone(backbone_of(config)),
        backbone_layers(dinov2_backbone_layers(backbone_config(config))),
        neck(dpt_neck_shape(config, {48, 96, 192, 384}, 64)),
        head_hidden_size(positive(config, "head_hidden_size", 32)),
        patch_size(positive(config, "patch_size", 14)),
        max_depth(config.get_float("max_depth", 1)),
        apply_layernorm(backbone_config(config).get_bool("apply_layernorm", true)) {
    const std::string type = config.get_string("depth_estimation_type", "relative");
    if (type != "relative" && type != "metric")
      fail("{}: depth_estimation_type: expected relative or metric, found {}", config.where(), quoted(type));
    metric = type == "metric";
    if (backbone_layers.size() != neck.widths.size())
      fail("{}: expected as many out_indices of the backbone as neck_hidden_sizes, {}, found {}", config.where(),
           neck.widths.size(), backbone_layers.size());
    head_in_index = dpt_head_map(config, neck.widths.size());
    neck.states = positive(config, "reassemble_hidden_size", 384);
    if (neck.states != backbone.hidden_size)
      fail("{}: reassemble_hidden_size: expected the hidden_size of the backbone, {}, found {}", config.where(),
           backbone.hidden_size, neck.states);
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

  Dinov2Config backbone;
  std::vector<int64_t> backbone_layers;
  DPTNeckShape neck;
  int64_t head_hidden_size, patch_size;
  size_t head_in_index = 0;
  double max_depth;
  bool apply_layernorm, metric = false;
};

class DepthHead {
 public:
  DepthHead(const Scope& scope, const DepthAnythingConfig& c)
      : metric_(c.metric),
        max_depth_(c.max_depth),
        conv1_(scope / "conv1", c.neck.fused, c.neck.fused / 2, {3, 3}, dpt_window(c.neck.deviation, 3)),
        conv2_(scope / "conv2", c.neck.fused / 2, c.head_hidden_size, {3, 3}, dpt_window(c.neck.deviation, 3)),
        conv3_(scope / "conv3", c.head_hidden_size, 1, {1, 1}, dpt_window(c.neck.deviation, 1)) {}
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
        neck_(scope / "neck", config_.neck),
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
    return {{"predicted_depth", head_(maps[config_.head_in_index], size, context)}};
  }

 private:
  DepthAnythingConfig config_;
  Dinov2Body backbone_;
  DPTNeck neck_;
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
