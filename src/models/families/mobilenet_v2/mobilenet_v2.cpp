// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al., 2018) as Transformers has it: sixteen inverted bottlenecks with depthwise convolutions,
// and DeepLabV3+'s head (Chen et al., 2018) that says of each pixel what it shows.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/losses/pixel_losses.h"
#include "models/nn/vision/convolution.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

// What the stem gives, then what each block gives; and the strides of the blocks.
constexpr std::array<int64_t, 17> kMobileNetChannels{16, 24, 24, 32, 32,  32,  64,  64, 64,
                                                     64, 96, 96, 96, 160, 160, 160, 320};
constexpr std::array<int64_t, 16> kMobileNetStrides{2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1};

// A factor of widths.
double factor_of_widths(const Config& config, std::string_view field, double otherwise) {
  const double factor = config.get_float(field, otherwise);
  if (!(factor > 0) || factor > 1024)
    fail("{}: {}: expected a number above 0 and up to 1024, found {}", config.where(), field, factor);
  return factor;
}

struct MobileNetV2Config {
  explicit MobileNetV2Config(const Config& config)
      : where(config.where()),
        num_channels(config.get_int("num_channels", 3)),
        depth_divisible_by(positive(config, "depth_divisible_by", 8, 1 << 20)),
        min_depth(positive(config, "min_depth", 8, 1 << 20)),
        output_stride(positive(config, "output_stride", 32)),
        num_labels(number_of_labels(config)),
        ignore_index(config.get_int("semantic_loss_ignore_index", 255)),
        depth_multiplier(factor_of_widths(config, "depth_multiplier", 1)),
        expand_ratio(factor_of_widths(config, "expand_ratio", 6)),
        classifier_dropout_prob(config.get_float("classifier_dropout_prob", 0.8)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        layer_norm_eps(config.get_float("layer_norm_eps", 0.001)),
        hidden_act(config.get_string("hidden_act", "relu6")),
        problem_type(config.get_string("problem_type", "")),
        first_layer_is_expansion(config.get_bool("first_layer_is_expansion", true)),
        finegrained_output(config.get_bool("finegrained_output", true)),
        tf_padding(config.get_bool("tf_padding", true)) {}
  std::string where;
  int64_t num_channels, depth_divisible_by, min_depth, output_stride, num_labels, ignore_index;
  double depth_multiplier, expand_ratio, classifier_dropout_prob, initializer_range, layer_norm_eps;
  std::string hidden_act, problem_type;
  bool first_layer_is_expansion, finegrained_output, tf_padding;

  // Near to so many channels, a multiple of depth_divisible_by, and not lower by more than a tenth. Halves go to the
  // even number, as Python rounds.
  int64_t divisible(double channels) const {
    const double wanted = std::nearbyint(channels);
    const auto whole = static_cast<int64_t>(wanted + static_cast<double>(depth_divisible_by) / 2);
    const int64_t found = std::max(min_depth, whole / depth_divisible_by * depth_divisible_by);
    return static_cast<double>(found) < 0.9 * wanted ? found + depth_divisible_by : found;
  }
  int64_t scaled(int64_t channels) const { return divisible(static_cast<double>(channels) * depth_multiplier); }
  int64_t expanded(int64_t channels) const { return divisible(static_cast<double>(channels) * expand_ratio); }
  int64_t output_channels() const { return finegrained_output && depth_multiplier < 1 ? 1280 : scaled(1280); }
};

struct MobileNetWindow {
  int64_t side = 1, stride = 1, groups = 1, dilation = 1;
};

// A convolution, a norm and an activation.
class MobileNetV2ConvLayer {
 public:
  // `act`: none where empty. `epsilon` of the norm.
  MobileNetV2ConvLayer(const Scope& scope, const MobileNetV2Config& c, int64_t in, int64_t out,
                       const MobileNetWindow& window, std::string act, double epsilon)
      : window_(window),
        pads_(c.tf_padding),
        activation_(std::move(act)),
        convolution_(scope / "convolution", in, out, {window.side, window.side}, options(window, c)),
        normalization_(scope / "normalization", out, epsilon, 0.997) {}
  MobileNetV2ConvLayer(const Scope& scope, const MobileNetV2Config& c, int64_t in, int64_t out,
                       const MobileNetWindow& window = {})
      : MobileNetV2ConvLayer(scope, c, in, out, window, c.hidden_act, c.layer_norm_eps) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor y = normalization_(convolution_(pads_ ? padded(x) : x, context), context);
    return activation_.empty() ? y : activation(activation_, y);
  }

 private:
  static Convolution::Options options(const MobileNetWindow& window, const MobileNetV2Config& c) {
    const Axes padding(2, c.tf_padding ? 0 : (window.side - 1) / 2 * window.dilation);
    return {.strides = Axes(2, window.stride),
            .low = padding,
            .high = padding,
            .dilations = Axes(2, window.dilation),
            .groups = window.groups,
            .bias = false,
            .deviation = c.initializer_range};
  }
  // As TensorFlow pads: by the extents of what comes.
  Tensor padded(const Tensor& x) const {
    Axes low(4, 0), high(4, 0);
    for (size_t axis = 2; axis < 4; ++axis) {
      const int64_t rest = x.dim(static_cast<int64_t>(axis)) % window_.stride;
      const int64_t both = std::max<int64_t>(window_.side - (rest == 0 ? window_.stride : rest), 0);
      low[axis] = both / 2 * window_.dilation, high[axis] = (both - both / 2) * window_.dilation;
    }
    return pad(x, low, high);
  }
  MobileNetWindow window_;
  bool pads_;
  std::string activation_;
  Convolution convolution_;
  BatchNorm normalization_;
};

class MobileNetV2Block {
 public:
  MobileNetV2Block(const Scope& scope, const MobileNetV2Config& c, int64_t in, int64_t out, int64_t stride,
                   int64_t dilation)
      : residual_(stride == 1 && in == out),
        expand_1x1_(scope / "expand_1x1", c, in, c.expanded(in)),
        conv_3x3_(scope / "conv_3x3", c, c.expanded(in), c.expanded(in), {3, stride, c.expanded(in), dilation}),
        reduce_1x1_(scope / "reduce_1x1", c, c.expanded(in), out, {}, "", c.layer_norm_eps) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor h = reduce_1x1_(conv_3x3_(expand_1x1_(x, context), context), context);
    return residual_ ? x + h : h;
  }

 private:
  bool residual_;
  MobileNetV2ConvLayer expand_1x1_, conv_3x3_, reduce_1x1_;
};

class MobileNetV2Stem {
 public:
  MobileNetV2Stem(const Scope& scope, const MobileNetV2Config& c)
      : first_conv_(scope / "first_conv", c, c.num_channels, c.scaled(32), {3, 2}),
        conv_3x3_(scope / "conv_3x3", c, c.scaled(32), c.scaled(32), {3, 1, c.scaled(32)}),
        reduce_1x1_(scope / "reduce_1x1", c, c.scaled(32), c.scaled(kMobileNetChannels[0]), {}, "", c.layer_norm_eps) {
    if (!c.first_layer_is_expansion) expand_1x1_.emplace(scope / "expand_1x1", c, c.scaled(32), c.scaled(32));
  }
  Tensor operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = first_conv_(image, context);
    if (expand_1x1_) x = (*expand_1x1_)(x, context);
    return reduce_1x1_(conv_3x3_(x, context), context);
  }

 private:
  MobileNetV2ConvLayer first_conv_;
  std::optional<MobileNetV2ConvLayer> expand_1x1_;
  MobileNetV2ConvLayer conv_3x3_, reduce_1x1_;
};

class MobileNetV2Body {
 public:
  MobileNetV2Body(const Config& config, const Scope& scope)
      : c_(config),
        conv_stem_(scope / "conv_stem", c_),
        conv_1x1_(scope / "conv_1x1", c_, c_.scaled(kMobileNetChannels.back()), c_.output_channels()) {
    int64_t reached = 2,
            dilation = 1;  // the stride from the picture to the map, and of the windows since output_stride
    for (size_t i = 0; i < kMobileNetStrides.size(); ++i) {
      const bool widens = reached == c_.output_stride;
      layer_.emplace_back(scope / "layer" / static_cast<int64_t>(i), c_, c_.scaled(kMobileNetChannels[i]),
                          c_.scaled(kMobileNetChannels[i + 1]), widens ? 1 : kMobileNetStrides[i],
                          widens ? dilation : 1);
      (widens ? dilation : reached) *= kMobileNetStrides[i];
    }
  }
  // The maps behind each block; the last one is what a head over pixels reads.
  std::vector<Tensor> maps(const Tensor& image, ForwardContext& context) const {
    std::vector<Tensor> states;
    Tensor x = conv_stem_(image, context);
    for (const MobileNetV2Block& block : layer_) states.push_back(x = block(x, context));
    return states;
  }
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    std::vector<Tensor> states = maps(image, context);
    const Tensor last = conv_1x1_(states.back(), context);
    return {last, global_mean(last), std::move(states)};
  }
  int64_t num_channels() const { return c_.num_channels; }
  const MobileNetV2Config& settings() const { return c_; }

 private:
  MobileNetV2Config c_;
  MobileNetV2Stem conv_stem_;
  std::vector<MobileNetV2Block> layer_;
  MobileNetV2ConvLayer conv_1x1_;
};

class MobileNetV2ForImageClassification : public Model {
 public:
  MobileNetV2ForImageClassification(const Config& config, const Scope& scope)
      : mobilenet_v2_(config, scope / "mobilenet_v2"),
        dropout_(mobilenet_v2_.settings().classifier_dropout_prob),
        classifier_(scope / "classifier", mobilenet_v2_.settings().output_channels(),
                    mobilenet_v2_.settings().num_labels, {.deviation = mobilenet_v2_.settings().initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = mobilenet_v2_(image_input(inputs, mobilenet_v2_.num_channels()), context);
    const Tensor logits = classifier_(dropout_(maps.pooled, context), context);
    return with_states(sequence_classification_outputs(logits, inputs, mobilenet_v2_.settings().problem_type, context),
                       maps, context);
  }

 private:
  MobileNetV2Body mobilenet_v2_;
  Dropout dropout_;
  Linear classifier_;
};

// DeepLabV3+: what is at a place, beside what the mean of the picture says.
class MobileNetV2PixelHead {
 public:
  MobileNetV2PixelHead(const Scope& scope, const MobileNetV2Config& c)
      : conv_pool_(part(scope / "conv_pool", c, c.scaled(kMobileNetChannels.back()))),
        conv_aspp_(part(scope / "conv_aspp", c, c.scaled(kMobileNetChannels.back()))),
        conv_projection_(part(scope / "conv_projection", c, 2 * kWidth)),
        dropout_(c.classifier_dropout_prob),
        classifier_(scope / "classifier" / "convolution", kWidth, c.num_labels, {1, 1},
                    {.deviation = c.initializer_range}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor local = conv_aspp_(x, context);
    const Tensor whole = broadcast_to(conv_pool_(mean(x, {2, 3}, true), context), local.shape());
    Tensor h = conv_projection_(concatenate({whole, local}, 1), context);
    // Whole channels are dropped.
    if (dropout_.applies(context)) h = h * dropout_(full({h.dim(0), h.dim(1), 1, 1}, 1, h.dtype()), context);
    return classifier_(h, context);
  }

 private:
  static constexpr int64_t kWidth = 256;
  static MobileNetV2ConvLayer part(const Scope& scope, const MobileNetV2Config& c, int64_t in) {
    return {scope, c, in, kWidth, {}, "relu", 1e-5};
  }
  MobileNetV2ConvLayer conv_pool_, conv_aspp_, conv_projection_;
  Dropout dropout_;
  Convolution classifier_;
};

class MobileNetV2ForSemanticSegmentation : public Model {
 public:
  MobileNetV2ForSemanticSegmentation(const Config& config, const Scope& scope)
      : mobilenet_v2_(config, scope / "mobilenet_v2"),
        segmentation_head_(scope / "segmentation_head", mobilenet_v2_.settings()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const MobileNetV2Config& c = mobilenet_v2_.settings();
    FeatureMaps maps;
    maps.hidden_states = mobilenet_v2_.maps(image_input(inputs, c.num_channels), context);
    const Tensor logits = segmentation_head_(maps.hidden_states.back(), context), labels = inputs.find("labels");
    if (labels.defined() && c.num_labels == 1)
      fail("{}: labels: expected a model of several classes (id2label), found one", c.where);
    const Tensor loss = labels.defined() ? pixel_loss(logits, labels, c.ignore_index, context) : Tensor();
    return with_states(with_loss(loss, {{"logits", logits}}), maps, context);
  }

 private:
  MobileNetV2Body mobilenet_v2_;
  MobileNetV2PixelHead segmentation_head_;
};

}  // namespace

static Family mobilenet_v2_family() {
  return {.model_type = "mobilenet_v2",
          .base_prefix = "mobilenet_v2",
          .architectures = {{"MobileNetV2Model",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<MobileNetV2Body, false>>},
                            {"MobileNetV2ForImageClassification", image_classification_head({"classifier"}),
                             make_model<MobileNetV2ForImageClassification>},
                            {"MobileNetV2ForSemanticSegmentation", semantic_segmentation_head({"segmentation_head"}),
                             make_model<MobileNetV2ForSemanticSegmentation>}},
          .inputs = {pixels_of_any_size()},
          .processors = {.tokenizer = none,
                         .image_processor = "MobileNetV2",
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

const RegisterFamilies kMobilenetV2Family{mobilenet_v2_family};

}  // namespace transom
