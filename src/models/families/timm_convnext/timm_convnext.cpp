// SPDX-License-Identifier: Apache-2.0
// timm's ConvNeXt and ConvNeXt V2: the stages of ../convnext under timm's names. The name of the architecture says the
// shape, and model_args change it.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/families/convnext/convnext_body.h"
#include "models/families/timm_wrapper/timm_network.h"

namespace transom {
namespace {

constexpr int64_t kMostTimmConvNextWidth = 1 << 16, kMostTimmConvNextDepth = 1024, kMostTimmConvNextWindow = 63;
constexpr double kTimmConvNextDeviation = 0.02;
constexpr size_t kTimmConvNextStages = 4;

constexpr ConvNextNames kTimmConvNextNames{.stages = "stages",
                                           .downsampling = "downsample",
                                           .blocks = "blocks",
                                           .depthwise = "conv_dw",
                                           .norm = "norm",
                                           .widening = "mlp.fc1",
                                           .narrowing = "mlp.fc2",
                                           .response = "mlp.grn",
                                           .scale = "gamma"};

struct TimmConvNextShape {
  std::string_view name;  // "convnext_tiny"; V2 has the same sizes
  std::vector<int64_t> depths, widths;
  bool pointwise;
  double epsilon = 1e-6;
};

const std::vector<TimmConvNextShape>& timm_convnext_shapes() {
  static const std::vector<TimmConvNextShape> all = {{"atto", {2, 2, 6, 2}, {40, 80, 160, 320}, true},
                                                     {"femto", {2, 2, 6, 2}, {48, 96, 192, 384}, true},
                                                     {"pico", {2, 2, 6, 2}, {64, 128, 256, 512}, true},
                                                     {"nano", {2, 2, 8, 2}, {80, 160, 320, 640}, true},
                                                     {"tiny", {3, 3, 9, 3}, {96, 192, 384, 768}, false},
                                                     {"small", {3, 3, 27, 3}, {96, 192, 384, 768}, false},
                                                     {"base", {3, 3, 27, 3}, {128, 256, 512, 1024}, false},
                                                     {"large", {3, 3, 27, 3}, {192, 384, 768, 1536}, false},
                                                     {"xlarge", {3, 3, 27, 3}, {256, 512, 1024, 2048}, false},
                                                     {"xxlarge", {3, 4, 30, 3}, {384, 768, 1536, 3072}, false, 1e-5},
                                                     {"huge", {3, 3, 27, 3}, {352, 704, 1408, 2816}, false}};
  return all;
}

// What the name of an architecture says.
struct TimmConvNextName {
  const TimmConvNextShape* shape;
  bool second = false, norm_first = false;
  int64_t hidden = 0;  // of the head
  std::string stem = "patch";
};

std::optional<TimmConvNextName> timm_convnext_name(std::string_view name) {
  TimmConvNextName found{};
  found.second = name.starts_with("convnextv2_");
  if (!found.second && !name.starts_with("convnext_")) return std::nullopt;
  name.remove_prefix(name.find('_') + 1);
  const std::string_view size = name.substr(0, name.find('_')), rest = name.substr(size.size());
  for (const TimmConvNextShape& shape : timm_convnext_shapes())
    if (shape.name == size) found.shape = &shape;
  // The sizes that one of the two alone has.
  if (!found.shape || (found.second ? size.starts_with("x") : size == "huge")) return std::nullopt;
  if (rest.empty()) return found;
  if (found.second) return std::nullopt;
  if (rest == "_ols" && found.shape->pointwise) found.stem = size == "nano" ? "overlap" : "overlap_tiered";
  else if (rest == "_hnf" && size == "tiny") found.norm_first = true;
  else if (rest == "_mlp" && size == "large") found.hidden = found.shape->widths.back();
  else return std::nullopt;
  return found;
}

// Four numbers, one a stage.
std::vector<int64_t> timm_convnext_numbers(const Config& given, const char* field, const std::vector<int64_t>& said,
                                           int64_t most) {
  const std::vector<int64_t> numbers = given.get_ints(field, said);
  if (numbers.size() != kTimmConvNextStages ||
      std::any_of(numbers.begin(), numbers.end(), [most](int64_t number) { return number < 1 || number > most; }))
    fail("{}: {}: expected {} numbers from 1 to {}, found {}", given.where(), field, kTimmConvNextStages, most,
         quoted(fmt::format("{}", fmt::join(numbers, ", "))));
  return numbers;
}

int64_t timm_convnext_half(int64_t width) {  // half of the channels, as a multiple of eight
  const int64_t half = width / 2, near = std::max<int64_t>(8, (half + 4) / 8 * 8);
  return 10 * near < 9 * half ? near + 8 : near;
}

struct TimmConvNextConfig : ConvNextDesign {
  explicit TimmConvNextConfig(const TimmArguments& timm) : TimmConvNextConfig(timm, *timm_convnext_name(timm.name)) {}
  std::string global_pool;
  bool norm_first;
  int64_t head_hidden_size;

 private:
  TimmConvNextConfig(const TimmArguments& timm, const TimmConvNextName& named)
      : ConvNextDesign{
            .names = kTimmConvNextNames,
            .num_channels = timm.in_chans,
            .hidden_sizes = timm_convnext_numbers(timm.given, "dims", named.shape->widths, kMostTimmConvNextWidth),
            .depths = timm_convnext_numbers(timm.given, "depths", named.shape->depths, kMostTimmConvNextDepth),
            .hidden_act = timm.activation("gelu"),
            .norm_epsilon = timm.given.get_float("norm_eps", named.shape->epsilon),
            .drop_path_rate = timm.drop_path_rate,
            .deviation = kTimmConvNextDeviation,
            .num_blocks = 0} {
    const Config& given = timm.given;
    for (const int64_t depth : depths) num_blocks += depth;
    read_windows(given);
    read_stem(given, named.stem);
    if (given.has("ls_init_value") || !named.second) layer_scale = given.get_float("ls_init_value", 1e-6);
    bias = given.get_bool("conv_bias", true);
    pointwise = given.get_bool("conv_mlp", named.shape->pointwise || named.norm_first);
    responds = given.get_bool("use_grn", named.second);
    norm_first = given.get_bool("head_norm_first", named.norm_first);
    head_hidden_size = named.hidden;
    if (given.has("head_hidden_size"))
      head_hidden_size = positive(given, "head_hidden_size", 0, kMostTimmConvNextWidth);
    given.get_json("head_init_scale");  // of new weights alone
    global_pool = timm.pooling("avg");
    if (norm_first && head_hidden_size > 0)
      fail("{}: head_hidden_size: expected none where head_norm_first is true", given.where());
    if (!norm_first && timm_pooled_parts(global_pool) != 1)
      fail("{}: global_pool: {} needs head_norm_first", given.where(), global_pool);
    const std::string norm = given.get_string("norm_layer", "layernorm");
    if (norm != "layernorm" && norm != "layernorm2d")
      fail(ErrorKind::kUnsupported, "{}: norm_layer: {} is not carried out; layernorm is", given.where(), quoted(norm));
    if (given.get_int("output_stride", 32) != 32)
      fail(ErrorKind::kUnsupported, "{}: output_stride: {} is not carried out; 32 is", given.where(),
           given.get_int("output_stride"));
    timm.expect_all_read();
  }

  void read_windows(const Config& given) {
    const std::string json = given.has("kernel_sizes") ? given.get_json("kernel_sizes") : "7";
    if (json.starts_with("[")) windows = timm_convnext_numbers(given, "kernel_sizes", {}, kMostTimmConvNextWindow);
    else windows.assign(kTimmConvNextStages, positive(given, "kernel_sizes", 7, kMostTimmConvNextWindow));
    for (const int64_t window : windows)
      if (window % 2 == 0) fail("{}: kernel_sizes: expected odd numbers, found {}", given.where(), window);
  }

  void read_stem(const Config& given, const std::string& named) {
    const std::string type = given.get_string("stem_type", named);
    const int64_t patch = positive(given, "patch_size", 4);
    const auto named_step = [](int64_t index) { return "stem." + std::to_string(index); };
    if (type == "patch") {
      // A larger one would need stages that keep the size of the map.
      if (patch > 7) fail("{}: patch_size: expected 1 to 7, found {}", given.where(), patch);
      stem = {{named_step(0), hidden_sizes[0], {patch, patch}, {.strides = {patch, patch}}}};
      first_shrinks = patch == 2;
    } else if (type == "overlap" || type == "overlap_tiered") {
      const int64_t middle = type == "overlap" ? hidden_sizes[0] : timm_convnext_half(hidden_sizes[0]);
      stem = {{named_step(0), middle, {3, 3}, Convolution::same(3, 2)},
              {named_step(1), hidden_sizes[0], {3, 3}, Convolution::same(3, 2)}};
    } else {
      fail(ErrorKind::kUnsupported, "{}: stem_type: {} is not carried out; patch, overlap and overlap_tiered are",
           given.where(), quoted(type));
    }
    stem_norm = named_step(static_cast<int64_t>(stem.size()));
  }
};

class TimmConvNextNetwork : public TimmNetwork {
 public:
  TimmConvNextNetwork(const Config& config, const Scope& scope) : TimmConvNextNetwork(TimmArguments(config), scope) {}
  TimmConvNextNetwork(const TimmArguments& timm, const Scope& scope)
      : timm_(timm),
        c_(timm),
        trunk_(scope, c_),
        norm_(scope / (c_.norm_first ? "norm_pre" : "head.norm"), c_.hidden_sizes.back(), c_.norm_epsilon) {
    if (c_.head_hidden_size > 0)
      pre_logits_.emplace(scope / "head.pre_logits.fc", c_.hidden_sizes.back(), c_.head_hidden_size,
                          Linear::Options{.deviation = kTimmConvNextDeviation});
  }

  Facts facts() const override {
    const int64_t pooled = c_.hidden_sizes.back() * timm_pooled_parts(c_.global_pool);
    return {timm_.in_chans, timm_.num_classes, pre_logits_ ? c_.head_hidden_size : pooled, "head.fc"};
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override {
    std::vector<Tensor> states = trunk_(image, context);
    states.erase(states.begin());  // timm gives those of the stages alone
    const Tensor last = c_.norm_first ? norm_of_channels(norm_, states.back(), context) : states.back();
    Tensor pooled = timm_pooled(last, c_.global_pool);
    if (!c_.norm_first) pooled = norm_(pooled, context);
    if (pre_logits_) pooled = gelu((*pre_logits_)(pooled, context));
    return {last, Dropout(timm_.drop_rate)(pooled, context), states};
  }

 private:
  TimmArguments timm_;
  TimmConvNextConfig c_;
  ConvNextTrunk trunk_;
  LayerNorm norm_;
  std::optional<Linear> pre_logits_;
};

const RegisterTimm kTimmConvNext({
    .examples = "convnext_tiny, convnext_nano_ols, convnextv2_base",
    .knows = [](const std::string& name) { return timm_convnext_name(name).has_value(); },
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<TimmConvNextNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
