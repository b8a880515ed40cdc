// SPDX-License-Identifier: Apache-2.0
// ResNet and ResNeXt (Xie et al., 2016) as timm has them, with its deep stems, average-pooled shortcuts and
// squeeze-and-excitation, in the checkpoints of Transformers' timm wrapper. The name of the architecture says the shape
// (resnext50d_32x4d), model_args change it. Other architectures of timm are refused by name.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/layers.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

struct TimmResNetConfig {
  // timm writes the number of classes and the pooling twice; what stands outside of model_args is what others change.
  explicit TimmResNetConfig(const Config& config)
      : num_classes(config.get_int("num_classes", 1000)), global_pool(config.get_string("global_pool", "avg")) {
    if (config.has("label_names") && !config.has("num_classes"))
      num_classes = static_cast<int64_t>(config.get_strings("label_names").size());
    const std::string name = config.get_string("architecture", "resnet50");
    if (!read_name(name.substr(0, name.find('.'))))
      fail(
          "{}: architecture: of timm, the ResNets and ResNeXts are known (resnet50d, resnext50_32x4d, "
          "seresnext101_32x8d, wide_resnet50_2 ...), not {}",
          config.where(), quoted(name));
    const Config arguments = config.get_object("model_args");
    if (!config.has("num_classes")) num_classes = arguments.get_int("num_classes", num_classes);
    read_arguments(arguments);
    if (layers.size() != 4 || channels.size() != 4)
      fail("{}: model_args: layers and channels: expected four numbers each", config.where());
    if (basic && (cardinality != 1 || base_width != 64))
      fail("{}: model_args: blocks of two convolutions have no cardinality or base_width", config.where());
  }

  bool basic = false, avg_down = false, squeeze_excite = false, replace_stem_pool = false;
  std::vector<int64_t> layers, channels{64, 128, 256, 512};
  int64_t num_classes, in_chans = 3, cardinality = 1, base_width = 64, stem_width = 64, reduce_first = 1,
                       down_kernel_size = 1, output_stride = 32;
  std::string stem_type, act_layer = "relu", global_pool;  // avg, max, avgmax (their mean), catavgmax (both)
  double drop_rate = 0, drop_path_rate = 0;

  int64_t expansion() const { return basic ? 1 : 4; }
  bool deep_stem() const { return stem_type.find("deep") != stem_type.npos; }
  int64_t stem_channels() const { return deep_stem() ? 2 * stem_width : 64; }

 private:
  // [se]resnet<depth><stem>, [se]resnext<depth><stem>_<cardinality>x<width>d, wide_resnet<depth>_2
  bool read_name(std::string_view name) {
    const auto take = [&](std::string_view prefix) {
      const bool found = name.starts_with(prefix);
      if (found) name.remove_prefix(prefix.size());
      return found;
    };
    const auto number = [&](int64_t& value) {
      size_t digits = 0;
      value = 0;
      for (; digits < name.size() && digits < 6 && name[digits] >= '0' && name[digits] <= '9'; ++digits)
        value = value * 10 + (name[digits] - '0');
      name.remove_prefix(digits);
      return digits > 0;
    };
    const bool wide = take("wide_");
    squeeze_excite = !wide && take("se");
    const bool grouped = !wide && take("resnext");
    int64_t depth = 0, width = 0;
    if ((!grouped && !take("resnet")) || !number(depth) || !read_depth(depth)) return false;
    if (take("c")) stem(32, "deep", false);
    else if (take("d")) stem(32, "deep", true);
    else if (take("s")) stem(64, "deep", false);
    else if (take("t")) stem(32, "deep_tiered", true);
    if (grouped) {
      if (basic || !take("_") || !number(cardinality) || !take("x") || !number(width) || !take("d")) return false;
      base_width = width;
    }
    if (wide) {
      if (basic || !take("_2")) return false;
      base_width = 128;
    }
    return name.empty();
  }

  bool read_depth(int64_t depth) {
    struct Depth {
      int64_t depth;
      bool basic;
      std::vector<int64_t> layers;
    };
    static const Depth known[] = {{10, true, {1, 1, 1, 1}},     {14, false, {1, 1, 1, 1}},
                                  {18, true, {2, 2, 2, 2}},     {26, false, {2, 2, 2, 2}},
                                  {34, true, {3, 4, 6, 3}},     {50, false, {3, 4, 6, 3}},
                                  {101, false, {3, 4, 23, 3}},  {152, false, {3, 8, 36, 3}},
                                  {200, false, {3, 24, 36, 3}}, {269, false, {3, 30, 48, 8}}};
    for (const Depth& entry : known)
      if (entry.depth == depth) {
        basic = entry.basic;
        layers = entry.layers;
        return true;
      }
    return false;
  }

  void stem(int64_t width, const char* type, bool average) {
    stem_width = width;
    stem_type = type;
    avg_down = average;
  }

  void read_arguments(const Config& arguments) {
    layers = arguments.get_ints("layers", layers);
    channels = arguments.get_ints("channels", channels);
    in_chans = arguments.get_int("in_chans", in_chans);
    cardinality = arguments.get_int("cardinality", cardinality);
    base_width = arguments.get_int("base_width", base_width);
    stem_width = arguments.get_int("stem_width", stem_width);
    reduce_first = positive(arguments, "block_reduce_first", reduce_first);
    down_kernel_size = positive(arguments, "down_kernel_size", down_kernel_size);
    output_stride = arguments.get_int("output_stride", output_stride);
    stem_type = arguments.get_string("stem_type", stem_type);
    act_layer = arguments.get_string("act_layer", act_layer);
    // Two that timm calls otherwise than Transformers.
    if (act_layer == "hard_swish") act_layer = "hardswish";
    if (act_layer == "gelu_tanh") act_layer = "gelu_pytorch_tanh";
    global_pool = arguments.get_string("global_pool", global_pool);
    avg_down = arguments.get_bool("avg_down", avg_down);
    replace_stem_pool = arguments.get_bool("replace_stem_pool", replace_stem_pool);
    drop_rate = arguments.get_float("drop_rate", 0);
    drop_path_rate = arguments.get_float("drop_path_rate", 0);
    if (arguments.has("block_args")) {
      const Config block = arguments.get_object("block_args");
      squeeze_excite = block.get_string("attn_layer", "") == "se";
      if (!squeeze_excite || block.keys().size() != 1)
        fail("{}: only {{\"attn_layer\": \"se\"}} is carried out", block.where());
    }
    if (global_pool.starts_with("fast")) global_pool = global_pool == "fast" ? "avg" : global_pool.substr(4);
    static const std::vector<std::string> pools = {"avg", "max", "avgmax", "catavgmax"};
    if (std::find(pools.begin(), pools.end(), global_pool) == pools.end())
      fail(ErrorKind::kUnsupported, "{}: global_pool = {} is not carried out; {} are", arguments.where(),
           quoted(global_pool), fmt::join(pools, ", "));
    if (output_stride != 8 && output_stride != 16 && output_stride != 32)
      fail("{}: output_stride: expected 8, 16 or 32, found {}", arguments.where(), output_stride);
    if (output_stride != 32 && avg_down)
      fail("{}: avg_down with an output_stride below 32 is not carried out", arguments.where());
    static const std::vector<std::string> known = {
        "layers",           "channels",           "in_chans",    "cardinality",    "base_width",
        "stem_width",       "block_reduce_first", "act_layer",   "stem_type",      "global_pool",
        "avg_down",         "replace_stem_pool",  "drop_rate",   "drop_path_rate", "block_args",
        "down_kernel_size", "output_stride",      "num_classes", "zero_init_last", "pretrained",
        "scriptable",       "exportable"};  // the last four have no effect on what is read
    for (const std::string& key : arguments.keys())
      if (std::find(known.begin(), known.end(), key) == known.end() && arguments.has(key))
        fail("{}: {} is not carried out{}", arguments.where(), quoted(key), did_you_mean(key, known));
  }
};

Convolution::Options windows(int64_t window, int64_t stride, int64_t dilation = 1, int64_t groups = 1) {
  const Axes padding(2, ((stride - 1) + dilation * (window - 1)) / 2);
  return {.strides = {stride, stride},
          .low = padding,
          .high = padding,
          .dilations = {dilation, dilation},
          .groups = groups,
          .bias = false};
}

// Channels weighed by what the mean of the image says of them (Hu et al., 2017).
class SqueezeExcite {
 public:
  SqueezeExcite(const Scope& scope, int64_t channels)
      : fc1_(scope / "fc1", channels, reduced(channels), {1, 1}, {}),
        fc2_(scope / "fc2", reduced(channels), channels, {1, 1}, {}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return x * sigmoid(fc2_(relu(fc1_(mean(x, {2, 3}, true), context)), context));
  }

 private:
  // A sixteenth, rounded to a multiple of 8.
  static int64_t reduced(int64_t channels) { return std::max<int64_t>(8, (channels + 64) / 128 * 8); }
  Convolution fc1_, fc2_;
};

struct ResidualShape {
  int64_t in, planes, stride, dilation, first_dilation;
  double drop_path;
};

class TimmBlock {
 public:
  TimmBlock(const Scope& scope, const TimmResNetConfig& c, const ResidualShape& s, bool downsample)
      : activation_(c.act_layer), drop_path_(s.drop_path), pool_(c.avg_down && s.stride != 1) {
    const int64_t out = s.planes * c.expansion();
    const auto add = [&](int64_t from, int64_t to, const Convolution::Options& options, int64_t window) {
      const std::string number = std::to_string(convolutions_.size() + 1);
      convolutions_.emplace_back(scope / ("conv" + number), from, to, Axes{window, window}, options);
      norms_.emplace_back(scope / ("bn" + number), to);
    };
    if (c.basic) {
      const int64_t first = s.planes / c.reduce_first;
      add(s.in, first, padded(s.first_dilation, s.stride, 1), 3);
      add(first, out, padded(s.dilation, 1, 1), 3);
    } else {
      const int64_t width = s.planes * c.base_width / 64 * c.cardinality, first = width / c.reduce_first;
      add(s.in, first, windows(1, 1), 1);
      add(first, width, padded(s.first_dilation, s.stride, c.cardinality), 3);
      add(width, out, windows(1, 1), 1);
    }
    if (c.squeeze_excite) se_.emplace(scope / "se", out);
    if (downsample) {
      const Scope names = scope / "downsample";
      if (c.avg_down) {
        downsample_.emplace(names / 1, s.in, out, Axes{1, 1}, windows(1, 1));
      } else {
        const int64_t window = s.stride == 1 && s.dilation == 1 ? 1 : c.down_kernel_size;
        downsample_.emplace(names / 0, s.in, out, Axes{window, window},
                            windows(window, s.stride, window > 1 ? s.first_dilation : 1));
      }
      downsample_norm_.emplace(names / (c.avg_down ? 2 : 1), out);
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = x;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      h = norms_[i](convolutions_[i](h, context), context);
      if (i + 1 < convolutions_.size()) h = activation(activation_, h);
    }
    if (se_) h = (*se_)(h, context);
    return activation(activation_, drop_path_(h, context) + shortcut(x, context));
  }

 private:
  static Convolution::Options padded(int64_t dilation, int64_t stride, int64_t groups) {
    Convolution::Options options = windows(3, stride, dilation, groups);
    options.low = options.high = {dilation, dilation};
    return options;
  }
  Tensor shortcut(const Tensor& x, ForwardContext& context) const {
    if (!downsample_) return x;
    // Windows that begin inside the image count, with what of them lies inside.
    const Tensor pooled =
        pool_ ? average_pool(x, {.window = {2, 2}, .low = {0, 0}, .high = {x.dim(2) % 2, x.dim(3) % 2}}) : x;
    return (*downsample_norm_)((*downsample_)(pooled, context), context);
  }

  std::string activation_;
  DropPath drop_path_;
  bool pool_;
  std::vector<Convolution> convolutions_;
  std::vector<BatchNorm> norms_;
  std::optional<SqueezeExcite> se_;
  std::optional<Convolution> downsample_;
  std::optional<BatchNorm> downsample_norm_;
};

class TimmResNet {
 public:
  TimmResNet(const Config& config, const Scope& scope) : c_(config) {
    const int64_t width = c_.stem_channels();
    if (c_.deep_stem()) {
      const int64_t first = c_.stem_type.find("tiered") != std::string::npos ? c_.stem_width / 4 * 3 : c_.stem_width;
      const Scope stem = scope / "conv1";
      stem_.emplace_back(stem / 0, c_.in_chans, first, Axes{3, 3}, windows(3, 2));
      stem_norms_.emplace_back(stem / 1, first);
      stem_.emplace_back(stem / 3, first, c_.stem_width, Axes{3, 3}, windows(3, 1));
      stem_norms_.emplace_back(stem / 4, c_.stem_width);
      stem_.emplace_back(stem / 6, c_.stem_width, width, Axes{3, 3}, windows(3, 1));
    } else {
      stem_.emplace_back(scope / "conv1", c_.in_chans, width, Axes{7, 7},
                         Convolution::Options{.strides = {2, 2}, .low = {3, 3}, .high = {3, 3}, .bias = false});
    }
    stem_norms_.emplace_back(scope / "bn1", width);
    if (c_.replace_stem_pool) {
      stem_.emplace_back(scope / "maxpool" / 0, width, width, Axes{3, 3}, windows(3, 2));
      stem_norms_.emplace_back(scope / "maxpool" / 1, width);
    }
    make_stages(scope, width);
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = image;
    std::vector<Tensor> states;
    for (size_t i = 0; i < stem_.size(); ++i) {
      x = activation(c_.act_layer, stem_norms_[i](stem_[i](x, context), context));
      if (i + (c_.replace_stem_pool ? 2 : 1) == stem_.size()) states.push_back(x);
    }
    if (!c_.replace_stem_pool) x = max_pool(x, {.window = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
    for (const auto& stage : stages_) {
      for (const TimmBlock& block : stage) x = block(x, context);
      states.push_back(x);
    }
    return {x, Dropout(c_.drop_rate)(pooled(x), context), states};
  }
  int64_t num_channels() const { return c_.in_chans; }
  int64_t width() const { return c_.channels.back() * c_.expansion() * (c_.global_pool == "catavgmax" ? 2 : 1); }
  int64_t num_classes() const { return c_.num_classes; }

 private:
  // [B, C, H, W] -> [B, C]
  Tensor pooled(const Tensor& x) const {
    if (c_.global_pool == "avg") return global_mean(x);
    const Tensor most = reduce_max(x, {2, 3});
    if (c_.global_pool == "max") return most;
    const Tensor mean = global_mean(x);
    return c_.global_pool == "avgmax" ? (mean + most) * 0.5 : concatenate({mean, most}, 1);
  }
  void make_stages(const Scope& scope, int64_t in) {
    int64_t blocks = 0, block = 0, net_stride = 4, dilation = 1, previous_dilation = 1;
    for (const int64_t count : c_.layers) blocks += count;
    for (size_t i = 0; i < c_.layers.size(); ++i) {
      int64_t stride = i == 0 ? 1 : 2;
      if (net_stride >= c_.output_stride) {
        dilation *= stride;
        stride = 1;
      } else {
        net_stride *= stride;
      }
      const int64_t planes = c_.channels[i], out = planes * c_.expansion();
      std::vector<TimmBlock>& stage = stages_.emplace_back();
      for (int64_t k = 0; k < c_.layers[i]; ++k, ++block) {
        const double place = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
        const ResidualShape shape{
            in, planes, k == 0 ? stride : 1, dilation, previous_dilation, c_.drop_path_rate * place};
        stage.emplace_back(scope / ("layer" + std::to_string(i + 1)) / k, c_, shape,
                           k == 0 && (stride != 1 || in != out));
        previous_dilation = dilation;
        in = out;
      }
    }
  }

  TimmResNetConfig c_;
  std::vector<Convolution> stem_;
  std::vector<BatchNorm> stem_norms_;
  std::vector<std::vector<TimmBlock>> stages_;
};

class TimmWrapperForImageClassification : public Model {
 public:
  TimmWrapperForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")), timm_model_(config, scope) {
    if (timm_model_.num_classes() == 0) return;  // features are the answer then
    fc_.emplace(scope / "fc", timm_model_.width(), timm_model_.num_classes(),
                Linear::Options{.deviation = 1 / std::sqrt(3.0 * static_cast<double>(timm_model_.width()))});
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = timm_model_(image_input(inputs, timm_model_.num_channels()), context);
    const Tensor logits = fc_ ? (*fc_)(maps.pooled, context) : maps.pooled;
    return with_states(sequence_classification_outputs(logits, inputs, problem_type_, context), maps, context);
  }

 private:
  std::string problem_type_;
  TimmResNet timm_model_;
  std::optional<Linear> fc_;
};

FamilyHead timm_head() {
  FamilyHead head = image_classification_head({"fc"});
  head.classes = "num_classes";
  return head;
}

}  // namespace

static Family timm_wrapper_family() {
  return {.model_type = "timm_wrapper",
          .base_prefix = "timm_model",
          .architectures = {{"TimmWrapperForImageClassification", timm_head(),
                             make_model<TimmWrapperForImageClassification>},
                            {"TimmWrapperModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<TimmResNet, false>>}},
          .inputs = {pixels_of_any_size("model_args.in_chans")},
          .mark = "pretrained_cfg",
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kTimmResnetFamily{timm_wrapper_family};

}  // namespace transom
