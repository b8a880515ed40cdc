// SPDX-License-Identifier: Apache-2.0
// EfficientNet (Tan and Le, 2019): inverted bottlenecks with depthwise convolutions and squeeze-and-excitation, their
// widths and repeats scaled by coefficients.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/layers.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

struct EfficientNetConfig {
  explicit EfficientNetConfig(const Config& config)
      : num_channels(config.get_int("num_channels", 3)),
        depth_divisor(positive(config, "depth_divisor", 8)),
        hidden_dim(positive(config, "hidden_dim", 2560)),
        kernel_sizes(config.get_ints("kernel_sizes", {3, 3, 5, 3, 5, 5, 3})),
        in_channels(config.get_ints("in_channels", {32, 16, 24, 40, 80, 112, 192})),
        out_channels(config.get_ints("out_channels", {16, 24, 40, 80, 112, 192, 320})),
        depthwise_padding(config.get_ints("depthwise_padding")),
        strides(config.get_ints("strides", {1, 2, 2, 2, 1, 2, 1})),
        num_block_repeats(config.get_ints("num_block_repeats", {1, 2, 2, 3, 3, 4, 1})),
        expand_ratios(config.get_ints("expand_ratios", {1, 6, 6, 6, 6, 6, 6})),
        width_coefficient(config.get_float("width_coefficient", 2.0)),
        depth_coefficient(config.get_float("depth_coefficient", 3.1)),
        squeeze_expansion_ratio(config.get_float("squeeze_expansion_ratio", 0.25)),
        batch_norm_eps(config.get_float("batch_norm_eps", 0.001)),
        batch_norm_momentum(config.get_float("batch_norm_momentum", 0.99)),
        dropout_rate(config.get_float("dropout_rate", 0.5)),
        drop_connect_rate(config.get_float("drop_connect_rate", 0.2)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "swish")),
        pooling_type(config.get_string("pooling_type", "mean")) {
    if (pooling_type != "mean" && pooling_type != "max")
      fail("{}: pooling_type: expected mean or max, found {}", config.where(), quoted(pooling_type));
    for (const auto* list : {&out_channels, &kernel_sizes, &strides, &num_block_repeats, &expand_ratios})
      if (in_channels.empty() || list->size() < in_channels.size())
        fail(
            "{}: in_channels, out_channels, kernel_sizes, strides, num_block_repeats and expand_ratios: expected one "
            "number each for every stage",
            config.where());
    for (const int64_t stride : strides)
      if (stride != 1 && stride != 2) fail("{}: strides: expected 1 or 2, found {}", config.where(), stride);
    if (filters(1280) != hidden_dim)
      fail("{}: hidden_dim: 1280 channels times width_coefficient {} make {}, found {}", config.where(),
           width_coefficient, filters(1280), hidden_dim);
  }
  int64_t num_channels, depth_divisor, hidden_dim;
  std::vector<int64_t> kernel_sizes, in_channels, out_channels, depthwise_padding, strides, num_block_repeats,
      expand_ratios;
  double width_coefficient, depth_coefficient, squeeze_expansion_ratio, batch_norm_eps, batch_norm_momentum,
      dropout_rate, drop_connect_rate, initializer_range;
  std::string hidden_act, pooling_type;

  // Channels scaled, rounded to the divisor, and not lowered by more than a tenth.
  int64_t filters(int64_t channels) const {
    const double wanted = static_cast<double>(channels) * width_coefficient;
    const auto rounded = static_cast<int64_t>(wanted + static_cast<double>(depth_divisor) / 2) / depth_divisor;
    const int64_t found = std::max(depth_divisor, rounded * depth_divisor);
    return static_cast<double>(found) < 0.9 * wanted ? found + depth_divisor : found;
  }
  int64_t repeats(int64_t count) const {
    return static_cast<int64_t>(std::ceil(depth_coefficient * static_cast<double>(count)));
  }
  Convolution::Options pointwise(bool bias = false) const { return {.bias = bias, .deviation = initializer_range}; }
};

BatchNorm norm(const Scope& scope, const EfficientNetConfig& c, int64_t channels) {
  return {scope, channels, c.batch_norm_eps, c.batch_norm_momentum};
}

struct BlockShape {
  int64_t in, out, stride, window, expand_ratio;
  double drop_rate;
  bool first;             // of its stage: no shortcut
  bool adjusted_padding;  // one less at the top and the left
};

class EfficientNetBlock {
 public:
  EfficientNetBlock(const Scope& scope, const EfficientNetConfig& c, const BlockShape& s)
      : activation_(c.hidden_act),
        shortcut_(s.stride == 1 && !s.first),
        depthwise_conv_(scope / "depthwise_conv" / "depthwise_conv", s.in * s.expand_ratio, s.in * s.expand_ratio,
                        {s.window, s.window}, depthwise(c, s)),
        depthwise_norm_(norm(scope / "depthwise_conv" / "depthwise_norm", c, s.in * s.expand_ratio)),
        reduce_(scope / "squeeze_excite" / "reduce", s.in * s.expand_ratio, squeezed(c, s), {1, 1}, c.pointwise(true)),
        expand_(scope / "squeeze_excite" / "expand", squeezed(c, s), s.in * s.expand_ratio, {1, 1}, c.pointwise(true)),
        project_conv_(scope / "projection" / "project_conv", s.in * s.expand_ratio, s.out, {1, 1}, c.pointwise()),
        project_bn_(norm(scope / "projection" / "project_bn", c, s.out)),
        dropout_(s.drop_rate) {
    if (s.expand_ratio != 1) {
      expand_conv_.emplace(scope / "expansion" / "expand_conv", s.in, s.in * s.expand_ratio, Axes{1, 1}, c.pointwise());
      // The one norm whose momentum is not the configuration's.
      expand_bn_.emplace(scope / "expansion" / "expand_bn", s.in * s.expand_ratio, c.batch_norm_eps);
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = x;
    if (expand_conv_) h = activation(activation_, (*expand_bn_)((*expand_conv_)(h, context), context));
    h = activation(activation_, depthwise_norm_(depthwise_conv_(h, context), context));
    h = h * sigmoid(expand_(activation(activation_, reduce_(mean(h, {2, 3}, true), context)), context));
    h = project_bn_(project_conv_(h, context), context);
    return shortcut_ ? dropout_(h, context) + x : h;
  }

 private:
  static Convolution::Options depthwise(const EfficientNetConfig& c, const BlockShape& s) {
    Convolution::Options options = Convolution::same(s.window, s.stride, s.in * s.expand_ratio);
    if (s.stride == 2) {
      const int64_t half = s.window / 2;
      options.low = Axes(2, s.adjusted_padding ? std::max<int64_t>(half - 1, 0) : half);
      options.high = Axes(2, half);
    }
    options.deviation = c.initializer_range;
    return options;
  }
  static int64_t squeezed(const EfficientNetConfig& c, const BlockShape& s) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(s.in) * c.squeeze_expansion_ratio));
  }

  std::string activation_;
  bool shortcut_;
  std::optional<Convolution> expand_conv_;
  std::optional<BatchNorm> expand_bn_;
  Convolution depthwise_conv_;
  BatchNorm depthwise_norm_;
  Convolution reduce_, expand_, project_conv_;
  BatchNorm project_bn_;
  Dropout dropout_;
};

class EfficientNetBody {
 public:
  EfficientNetBody(const Config& config, const Scope& scope)
      : c_(config),
        stem_(scope / "embeddings" / "convolution", c_.num_channels, c_.filters(32), {3, 3},
              {.strides = {2, 2}, .low = {0, 0}, .high = {1, 1}, .bias = false, .deviation = c_.initializer_range}),
        stem_norm_(norm(scope / "embeddings" / "batchnorm", c_, c_.filters(32))),
        top_conv_(scope / "encoder" / "top_conv", c_.filters(c_.out_channels[c_.in_channels.size() - 1]), c_.hidden_dim,
                  {1, 1}, c_.pointwise()),
        top_bn_(norm(scope / "encoder" / "top_bn", c_, c_.hidden_dim)) {
    int64_t total = 0;
    for (const int64_t count : c_.num_block_repeats) total += c_.repeats(count);
    for (size_t i = 0; i < c_.in_channels.size(); ++i) {
      const int64_t out = c_.filters(c_.out_channels[i]);
      for (int64_t k = 0; k < c_.repeats(c_.num_block_repeats[i]); ++k) {
        const auto number = static_cast<int64_t>(blocks_.size());
        const auto& square = c_.depthwise_padding;
        blocks_.emplace_back(
            scope / "encoder" / "blocks" / number, c_,
            BlockShape{.in = k == 0 ? c_.filters(c_.in_channels[i]) : out,
                       .out = out,
                       .stride = k == 0 ? c_.strides[i] : 1,
                       .window = c_.kernel_sizes[i],
                       .expand_ratio = c_.expand_ratios[i],
                       .drop_rate = c_.drop_connect_rate * static_cast<double>(number) / static_cast<double>(total),
                       .first = k == 0,
                       .adjusted_padding = std::find(square.begin(), square.end(), number) == square.end()});
      }
    }
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = activation(c_.hidden_act, stem_norm_(stem_(image, context), context));
    std::vector<Tensor> states{x};
    for (const EfficientNetBlock& block : blocks_) states.push_back(x = block(x, context));
    x = activation(c_.hidden_act, top_bn_(top_conv_(x, context), context));
    if (std::max(x.dim(2), x.dim(3)) > c_.hidden_dim)
      fail("pixel_values: the image is too large: its last map is {}, above the pooling window of {} (hidden_dim)",
           to_string(x.shape()), c_.hidden_dim);
    return {x, c_.pooling_type == "mean" ? global_mean(x) : reduce_max(x, {2, 3}), states};
  }
  int64_t num_channels() const { return c_.num_channels; }
  const EfficientNetConfig& settings() const { return c_; }

 private:
  EfficientNetConfig c_;
  Convolution stem_;
  BatchNorm stem_norm_;
  std::vector<EfficientNetBlock> blocks_;
  Convolution top_conv_;
  BatchNorm top_bn_;
};

class EfficientNetForImageClassification : public Model {
 public:
  EfficientNetForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        efficientnet_(config, scope / "efficientnet"),
        dropout_(efficientnet_.settings().dropout_rate),
        classifier_(scope / "classifier", efficientnet_.settings().hidden_dim, number_of_labels(config),
                    {.deviation = efficientnet_.settings().initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = efficientnet_(image_input(inputs, efficientnet_.num_channels()), context);
    const Tensor logits = classifier_(dropout_(maps.pooled, context), context);
    return with_states(sequence_classification_outputs(logits, inputs, problem_type_, context), maps, context);
  }

 private:
  std::string problem_type_;
  EfficientNetBody efficientnet_;
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace

static Family efficientnet_family() {
  return {.model_type = "efficientnet",
          .base_prefix = "efficientnet",
          .architectures = {{"EfficientNetModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<EfficientNetBody, false>>},
                            {"EfficientNetForImageClassification", image_classification_head({"classifier"}),
                             make_model<EfficientNetForImageClassification>}},
          .inputs = {pixels_of_any_size()},
          .processors = {.tokenizer = none,
                         .image_processor = "EfficientNet",
                         .positions = none,
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

const RegisterFamilies kEfficientnetFamily{efficientnet_family};

}  // namespace transom
