// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al., 2022): a depthwise 7x7 convolution, then a feed-forward layer over the channels, with scaled
// residual branches. [B, C, H, W], channels last inside a block.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/layers.h"
#include "models/nn/vision/channel_norm.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

constexpr double kBlockEpsilon = 1e-6;  // of the norms inside the body, whatever layer_norm_eps says

struct ConvNextConfig {
  explicit ConvNextConfig(const Config& config)
      : num_channels(config.get_int("num_channels", 3)),
        patch_size(config.get_pair("patch_size", 4)),
        hidden_sizes(config.get_ints("hidden_sizes", {96, 192, 384, 768})),
        depths(config.get_ints("depths", {3, 3, 9, 3})),
        hidden_act(config.get_string("hidden_act", "gelu")),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-12)),
        layer_scale_init_value(config.get_float("layer_scale_init_value", 1e-6)),
        drop_path_rate(config.get_float("drop_path_rate", 0)),
        initializer_range(config.get_float("initializer_range", 0.02)) {
    const int64_t stages = config.get_int("num_stages", static_cast<int64_t>(depths.size()));
    if (stages < 1 || stages > static_cast<int64_t>(std::min(depths.size(), hidden_sizes.size())))
      fail("{}: num_stages: expected a number from 1 to those of depths and hidden_sizes ({}, {}), found {}",
           config.where(), depths.size(), hidden_sizes.size(), stages);
    num_blocks = 0;
    for (const int64_t depth : depths) num_blocks += depth;
    depths.resize(static_cast<size_t>(stages));
    width = hidden_sizes.back();  // of the final norm
  }
  int64_t num_channels;
  Extents patch_size;
  std::vector<int64_t> hidden_sizes, depths;
  std::string hidden_act;
  double layer_norm_eps, layer_scale_init_value, drop_path_rate, initializer_range;
  int64_t num_blocks, width;
};

class ConvNextLayer {
 public:
  ConvNextLayer(const Scope& scope, const ConvNextConfig& c, int64_t width, double drop_path)
      : activation_(c.hidden_act),
        dwconv_(scope / "dwconv", width, width, {7, 7}, depthwise(width, c.initializer_range)),
        layernorm_(scope / "layernorm", width, kBlockEpsilon),
        pwconv1_(scope / "pwconv1", width, 4 * width, {.deviation = c.initializer_range}),
        pwconv2_(scope / "pwconv2", 4 * width, width, {.deviation = c.initializer_range}),
        drop_path_(drop_path) {
    if (c.layer_scale_init_value > 0)
      layer_scale_parameter_ =
          scope.parameter("layer_scale_parameter", {width}, Initial::constant(c.layer_scale_init_value));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = layernorm_(permute(dwconv_(x, context), {0, 2, 3, 1}), context);
    h = pwconv2_(activation(activation_, pwconv1_(h, context)), context);
    if (layer_scale_parameter_) h = h * layer_scale_parameter_->value;
    return x + drop_path_(permute(h, {0, 3, 1, 2}), context);
  }

 private:
  static Convolution::Options depthwise(int64_t width, double deviation) {
    Convolution::Options options = Convolution::same(7, 1, width, true);
    options.deviation = deviation;
    return options;
  }
  std::string activation_;
  Convolution dwconv_;
  LayerNorm layernorm_;
  Linear pwconv1_, pwconv2_;
  std::shared_ptr<Parameter> layer_scale_parameter_;
  DropPath drop_path_;
};

class ConvNextStage {
 public:
  ConvNextStage(const Scope& scope, const ConvNextConfig& c, size_t index, int64_t first_block) {
    const int64_t out = c.hidden_sizes[index];
    if (index > 0) {
      const int64_t in = c.hidden_sizes[index - 1];
      downsampling_norm_.emplace(scope / "downsampling_layer" / 0, in, kBlockEpsilon);
      downsampling_.emplace(scope / "downsampling_layer" / 1, in, out, Axes{2, 2},
                            Convolution::Options{.strides = {2, 2}, .deviation = c.initializer_range});
    }
    for (int64_t i = 0; i < c.depths[index]; ++i) {
      const double place =
          static_cast<double>(first_block + i) / static_cast<double>(std::max<int64_t>(c.num_blocks - 1, 1));
      layers_.emplace_back(scope / "layers" / i, c, out, c.drop_path_rate * place);
    }
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    if (downsampling_) x = (*downsampling_)(norm_of_channels(*downsampling_norm_, x, context), context);
    for (const ConvNextLayer& layer : layers_) x = layer(x, context);
    return x;
  }

 private:
  std::optional<LayerNorm> downsampling_norm_;
  std::optional<Convolution> downsampling_;
  std::vector<ConvNextLayer> layers_;
};

class ConvNextBody {
 public:
  ConvNextBody(const Config& config, const Scope& scope)
      : c_(config),
        patch_embeddings_(scope / "embeddings" / "patch_embeddings", c_.num_channels, c_.hidden_sizes[0],
                          {c_.patch_size[0], c_.patch_size[1]},
                          {.strides = {c_.patch_size[0], c_.patch_size[1]}, .deviation = c_.initializer_range}),
        embeddings_norm_(scope / "embeddings" / "layernorm", c_.hidden_sizes[0], kBlockEpsilon),
        layernorm_(scope / "layernorm", c_.width, c_.layer_norm_eps) {
    int64_t block = 0;
    for (size_t i = 0; i < c_.depths.size(); ++i) {
      stages_.emplace_back(scope / "encoder" / "stages" / static_cast<int64_t>(i), c_, i, block);
      block += c_.depths[i];
    }
  }
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = norm_of_channels(embeddings_norm_, patch_embeddings_(image, context), context);
    std::vector<Tensor> states{x};
    for (const ConvNextStage& stage : stages_) states.push_back(x = stage(x, context));
    return {x, layernorm_(global_mean(x), context), states};
  }
  int64_t num_channels() const { return c_.num_channels; }
  const ConvNextConfig& settings() const { return c_; }

 private:
  ConvNextConfig c_;
  Convolution patch_embeddings_;
  LayerNorm embeddings_norm_;
  std::vector<ConvNextStage> stages_;
  LayerNorm layernorm_;
};

class ConvNextForImageClassification : public Model {
 public:
  ConvNextForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        convnext_(config, scope / "convnext"),
        classifier_(scope / "classifier", convnext_.settings().width, number_of_labels(config),
                    {.deviation = convnext_.settings().initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = convnext_(image_input(inputs, convnext_.num_channels()), context);
    return with_states(
        sequence_classification_outputs(classifier_(maps.pooled, context), inputs, problem_type_, context), maps,
        context);
  }

 private:
  std::string problem_type_;
  ConvNextBody convnext_;
  Linear classifier_;
};

}  // namespace

static Family convnext_family() {
  return {.model_type = "convnext",
          .base_prefix = "convnext",
          .architectures = {{"ConvNextModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<ConvNextBody, false>>},
                            {"ConvNextForImageClassification", image_classification_head({"classifier"}),
                             make_model<ConvNextForImageClassification>}},
          .inputs = {pixels_of_any_size()},
          .processors = {.tokenizer = none,
                         .image_processor = "ConvNext",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "convnext", .joint = "."}, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kConvnextFamily{convnext_family};

}  // namespace transom
