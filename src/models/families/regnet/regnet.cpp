// SPDX-License-Identifier: Apache-2.0
// RegNet (Radosavovic et al., 2020) as Transformers has it: ResNet's bottlenecks of one width with groups; of the kind
// y the channels are weighed by what is seen in all of them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "models/families/resnet/resnet_body.h"
#include "models/families/resnet/resnet_classifier.h"
#include "models/family.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

struct RegNetConfig {
  explicit RegNetConfig(const Config& config)
      : num_channels(config.get_int("num_channels", 3)),
        embedding_size(positive(config, "embedding_size", 32)),
        groups_width(positive(config, "groups_width", 64)),
        hidden_sizes(config.get_ints("hidden_sizes", {128, 192, 512, 1088})),
        depths(config.get_ints("depths", {2, 6, 12, 2})),
        hidden_act(config.get_string("hidden_act", "relu")),
        downsample_in_first_stage(config.get_bool("downsample_in_first_stage", true)) {
    const std::string type = config.get_string("layer_type", "y");
    if (type != "x" && type != "y") fail("{}: layer_type: expected x or y, found {}", config.where(), quoted(type));
    weighs_channels = type == "y";
    if (hidden_sizes.empty() || hidden_sizes.size() != depths.size())
      fail("{}: hidden_sizes and depths: expected one number each for every stage, found {} and {}", config.where(),
           hidden_sizes.size(), depths.size());
  }
  int64_t num_channels, embedding_size, groups_width;
  std::vector<int64_t> hidden_sizes, depths;
  std::string hidden_act;
  bool downsample_in_first_stage, weighs_channels;
};

// Squeeze and excitation (Hu et al., 2018).
class RegNetChannelWeights {
 public:
  RegNetChannelWeights(const Scope& scope, int64_t channels, int64_t reduced)
      : reduce_(scope / "attention" / 0, channels, reduced, {1, 1}, Convolution::same(1, 1, 1, true)),
        expand_(scope / "attention" / 2, reduced, channels, {1, 1}, Convolution::same(1, 1, 1, true)) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    return x * sigmoid(expand_(relu(reduce_(mean(x, {2, 3}, true), context)), context));
  }

 private:
  Convolution reduce_, expand_;
};

class RegNetLayer {
 public:
  RegNetLayer(const Scope& scope, const RegNetConfig& c, int64_t in, int64_t out, int64_t stride)
      : activation_(c.hidden_act),
        widening_(scope / "layer" / 0, in, out, 1, 1, c.hidden_act),
        grouped_(scope / "layer" / 1, out, out, 3, stride, c.hidden_act, std::max<int64_t>(1, out / c.groups_width)),
        last_(scope / "layer" / (c.weighs_channels ? 3 : 2), out, out, 1, 1, "linear") {
    if (in != out || stride != 1) shortcut_.emplace(scope / "shortcut", in, out, 1, stride, "linear");
    // A half is rounded to the even number, as Python does.
    if (c.weighs_channels)
      weights_.emplace(scope / "layer" / 2, out, static_cast<int64_t>(std::nearbyint(static_cast<double>(in) / 4)));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = grouped_(widening_(x, context), context);
    if (weights_) h = (*weights_)(h, context);
    return activation(activation_, last_(h, context) + (shortcut_ ? (*shortcut_)(x, context) : x));
  }

 private:
  std::string activation_;
  ResNetConvLayer<BatchNorm> widening_, grouped_, last_;
  std::optional<RegNetChannelWeights> weights_;
  std::optional<ResNetConvLayer<BatchNorm>> shortcut_;
};

class RegNetBody {
 public:
  static constexpr const char* kName = "regnet";
  RegNetBody(const Config& config, const Scope& scope)
      : c_(config),
        embedder_(scope / "embedder" / "embedder", c_.num_channels, c_.embedding_size, 3, 2, c_.hidden_act) {
    int64_t in = c_.embedding_size;
    for (size_t i = 0; i < c_.depths.size(); ++i) {
      const Scope layers = scope / "encoder" / "stages" / static_cast<int64_t>(i) / "layers";
      std::vector<RegNetLayer>& stage = stages_.emplace_back();
      const int64_t depth = std::max<int64_t>(c_.depths[i], 1);  // the first layer is always there
      for (int64_t k = 0; k < depth; ++k) {
        const bool down = k == 0 && (i > 0 || c_.downsample_in_first_stage);
        stage.emplace_back(layers / k, c_, in, c_.hidden_sizes[i], down ? 2 : 1);
        in = c_.hidden_sizes[i];
      }
    }
  }
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = embedder_(image, context);
    std::vector<Tensor> states{x};
    for (const std::vector<RegNetLayer>& stage : stages_) {
      for (const RegNetLayer& layer : stage) x = layer(x, context);
      states.push_back(x);
    }
    return {x, global_mean(x), states};
  }
  int64_t num_channels() const { return c_.num_channels; }
  int64_t width() const { return c_.hidden_sizes.back(); }

 private:
  RegNetConfig c_;
  ResNetConvLayer<BatchNorm> embedder_;
  std::vector<std::vector<RegNetLayer>> stages_;
};

}  // namespace

static Family regnet_family() {
  return {
      .model_type = "regnet",
      .base_prefix = "regnet",
      .architectures = {{"RegNetModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<ImageFeatureModel<RegNetBody, true>>},
                        {"RegNetForImageClassification", image_classification_head({"classifier"}),
                         make_model<PooledMapClassifier<RegNetBody>>}},
      .inputs = {pixels_of_any_size()},
      .processors =
          {.tokenizer = none, .image_processor = "ConvNext", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kRegnetFamily{regnet_family};

}  // namespace transom
