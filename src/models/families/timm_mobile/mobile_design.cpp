// SPDX-License-Identifier: Apache-2.0
#include "models/families/timm_mobile/mobile_design.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr auto kSeparable = MobileBlock::Kind::kSeparable, kInverted = MobileBlock::Kind::kInverted,
               kFused = MobileBlock::Kind::kFused, kPlain = MobileBlock::Kind::kPlain;
constexpr double kTensorFlowEpsilon = 1e-3;

// Columns: repeats, window, stride, expansion, channels, squeeze, ReLU.
MobileStages small_v3_stages() {
  return {{{kSeparable, 1, 3, 2, 1, 16, 0.25, true}},
          {{kInverted, 1, 3, 2, 4.5, 24, 0, true}, {kInverted, 1, 3, 1, 3.67, 24, 0, true}},
          {{kInverted, 1, 5, 2, 4, 40, 0.25}, {kInverted, 2, 5, 1, 6, 40, 0.25}},
          {{kInverted, 2, 5, 1, 3, 48, 0.25}},
          {{kInverted, 3, 5, 2, 6, 96, 0.25}},
          {{kPlain, 1, 1, 1, 1, 576}}};
}

MobileStages large_v3_stages() {
  return {{{kSeparable, 1, 3, 1, 1, 16, 0, true}},
          {{kInverted, 1, 3, 2, 4, 24, 0, true}, {kInverted, 1, 3, 1, 3, 24, 0, true}},
          {{kInverted, 3, 5, 2, 3, 40, 0.25, true}},
          {{kInverted, 1, 3, 2, 6, 80}, {kInverted, 1, 3, 1, 2.5, 80}, {kInverted, 2, 3, 1, 2.3, 80}},
          {{kInverted, 2, 3, 1, 6, 112, 0.25}},
          {{kInverted, 3, 5, 2, 6, 160, 0.25}},
          {{kPlain, 1, 1, 1, 1, 960}}};
}

// Without squeeze-and-excitation and wide windows.
MobileStages without_squeezing(MobileStages stages) {
  for (auto& stage : stages)
    for (MobileBlock& block : stage) block.window = std::min<int64_t>(block.window, 3), block.squeeze = 0;
  return stages;
}

MobileStages v2_stages() {
  return {{{kSeparable, 1, 3, 1, 1, 16}}, {{kInverted, 2, 3, 2, 6, 24}}, {{kInverted, 3, 3, 2, 6, 32}},
          {{kInverted, 4, 3, 2, 6, 64}},  {{kInverted, 3, 3, 1, 6, 96}}, {{kInverted, 3, 3, 2, 6, 160}},
          {{kInverted, 1, 3, 1, 6, 320}}};
}

MobileStages efficient_stages(double squeeze) {
  return {{{kSeparable, 1, 3, 1, 1, 16, squeeze}}, {{kInverted, 2, 3, 2, 6, 24, squeeze}},
          {{kInverted, 2, 5, 2, 6, 40, squeeze}},  {{kInverted, 3, 3, 2, 6, 80, squeeze}},
          {{kInverted, 3, 5, 1, 6, 112, squeeze}}, {{kInverted, 4, 5, 2, 6, 192, squeeze}},
          {{kInverted, 1, 3, 1, 6, 320, squeeze}}};
}

// Of EfficientNetV2: how often each block is repeated, and what it gives. The first stages are without squeezing.
MobileStages efficient_v2_stages(const std::vector<int64_t>& repeats, const std::vector<int64_t>& channels) {
  MobileStages stages{
      {{kPlain, repeats[0], 3, 1, 1, channels[0]}},          {{kFused, repeats[1], 3, 2, 4, channels[1]}},
      {{kFused, repeats[2], 3, 2, 4, channels[2]}},          {{kInverted, repeats[3], 3, 2, 4, channels[3], 0.25}},
      {{kInverted, repeats[4], 3, 1, 6, channels[4], 0.25}}, {{kInverted, repeats[5], 3, 2, 6, channels[5], 0.25}}};
  if (repeats.size() > 6) stages.push_back({{kInverted, repeats[6], 3, 1, 6, channels[6], 0.25}});
  return stages;
}

enum class MobileKind {
  kSmallV3,
  kLargeV3,
  kV2,
  kEfficient,
  kLite,
  kEfficientV2Base,
  kEfficientV2S,
  kV2M,
  kV2L,
  kV2XL
};
enum class WeightsOf { kTorch, kTensorFlow, kBoth };

struct MobileName {
  std::string_view name;  // without tf_
  MobileKind kind;
  double channels = 1, depth = 1;
  WeightsOf from = WeightsOf::kBoth;
  bool fixed_ends = false;  // the first and the last stage, the stem and the features are not scaled
};
constexpr MobileName kMobileNames[] = {
    {"mobilenetv3_large_075", MobileKind::kLargeV3, 0.75},
    {"mobilenetv3_large_100", MobileKind::kLargeV3},
    {"mobilenetv3_large_150d", MobileKind::kLargeV3, 1.5, 1.2, WeightsOf::kTorch},
    {"mobilenetv3_large_minimal_100", MobileKind::kLargeV3, 1, 1, WeightsOf::kTensorFlow},
    {"mobilenetv3_small_050", MobileKind::kSmallV3, 0.5, 1, WeightsOf::kTorch},
    {"mobilenetv3_small_075", MobileKind::kSmallV3, 0.75},
    {"mobilenetv3_small_100", MobileKind::kSmallV3},
    {"mobilenetv3_small_minimal_100", MobileKind::kSmallV3, 1, 1, WeightsOf::kTensorFlow},
    {"mobilenetv2_035", MobileKind::kV2, 0.35, 1, WeightsOf::kTorch},
    {"mobilenetv2_050", MobileKind::kV2, 0.5, 1, WeightsOf::kTorch},
    {"mobilenetv2_075", MobileKind::kV2, 0.75, 1, WeightsOf::kTorch},
    {"mobilenetv2_100", MobileKind::kV2, 1, 1, WeightsOf::kTorch},
    {"mobilenetv2_140", MobileKind::kV2, 1.4, 1, WeightsOf::kTorch},
    {"mobilenetv2_110d", MobileKind::kV2, 1.1, 1.2, WeightsOf::kTorch, true},
    {"mobilenetv2_120d", MobileKind::kV2, 1.2, 1.4, WeightsOf::kTorch, true},
    {"efficientnet_b0", MobileKind::kEfficient},
    {"efficientnet_b1", MobileKind::kEfficient, 1, 1.1},
    {"efficientnet_b2", MobileKind::kEfficient, 1.1, 1.2},
    {"efficientnet_b3", MobileKind::kEfficient, 1.2, 1.4},
    {"efficientnet_b4", MobileKind::kEfficient, 1.4, 1.8},
    {"efficientnet_b5", MobileKind::kEfficient, 1.6, 2.2},
    {"efficientnet_b6", MobileKind::kEfficient, 1.8, 2.6},
    {"efficientnet_b7", MobileKind::kEfficient, 2, 3.1},
    {"efficientnet_b8", MobileKind::kEfficient, 2.2, 3.6},
    {"efficientnet_lite0", MobileKind::kLite, 1, 1, WeightsOf::kBoth, true},
    {"efficientnet_lite1", MobileKind::kLite, 1, 1.1, WeightsOf::kBoth, true},
    {"efficientnet_lite2", MobileKind::kLite, 1.1, 1.2, WeightsOf::kBoth, true},
    {"efficientnet_lite3", MobileKind::kLite, 1.2, 1.4, WeightsOf::kBoth, true},
    {"efficientnet_lite4", MobileKind::kLite, 1.4, 1.8, WeightsOf::kBoth, true},
    {"efficientnetv2_b0", MobileKind::kEfficientV2Base, 1, 1, WeightsOf::kTensorFlow},
    {"efficientnetv2_b1", MobileKind::kEfficientV2Base, 1, 1.1, WeightsOf::kTensorFlow},
    {"efficientnetv2_b2", MobileKind::kEfficientV2Base, 1.1, 1.2, WeightsOf::kTensorFlow},
    {"efficientnetv2_b3", MobileKind::kEfficientV2Base, 1.2, 1.4, WeightsOf::kTensorFlow},
    {"efficientnetv2_rw_t", MobileKind::kEfficientV2S, 0.8, 0.9, WeightsOf::kTorch},
    {"efficientnetv2_s", MobileKind::kEfficientV2S},
    {"efficientnetv2_m", MobileKind::kV2M},
    {"efficientnetv2_l", MobileKind::kV2L},
    {"efficientnetv2_xl", MobileKind::kV2XL},
};

const MobileName* find_mobile_name(std::string_view name) {
  const bool of_tensorflow = name.starts_with("tf_");
  if (of_tensorflow) name.remove_prefix(3);
  for (const MobileName& known : kMobileNames)
    if (known.name == name)
      return known.from == (of_tensorflow ? WeightsOf::kTorch : WeightsOf::kTensorFlow) ? nullptr : &known;
  return nullptr;
}

MobileStages mobile_stages_of(const MobileName& known) {
  const bool small = known.name.find("minimal") != known.name.npos;
  switch (known.kind) {
    case MobileKind::kSmallV3:
      return small ? without_squeezing(small_v3_stages()) : small_v3_stages();
    case MobileKind::kLargeV3:
      return small ? without_squeezing(large_v3_stages()) : large_v3_stages();
    case MobileKind::kV2:
      return v2_stages();
    case MobileKind::kEfficient:
      return efficient_stages(0.25);
    case MobileKind::kLite:
      return efficient_stages(0);
    case MobileKind::kEfficientV2Base:
      return efficient_v2_stages({1, 2, 2, 3, 5, 8}, {16, 32, 48, 96, 112, 192});
    case MobileKind::kEfficientV2S:
      return efficient_v2_stages({2, 4, 4, 6, 9, 15}, {24, 48, 64, 128, 160, 256});
    case MobileKind::kV2M:
      return efficient_v2_stages({3, 5, 5, 7, 14, 18, 5}, {24, 48, 80, 160, 176, 304, 512});
    case MobileKind::kV2L:
      return efficient_v2_stages({4, 7, 7, 10, 19, 25, 7}, {32, 64, 96, 192, 224, 384, 640});
    case MobileKind::kV2XL:
      return efficient_v2_stages({4, 8, 8, 16, 24, 32, 8}, {32, 64, 96, 192, 256, 512, 640});
  }
  fail(ErrorKind::kInternal, "a mobile network without stages");
}

// The blocks of a stage one by one, as many as `depth` times those that are written, shared out from the last to the
// first.
std::vector<MobileBlock> scaled_mobile_stage(const std::vector<MobileBlock>& stage, double depth) {
  double left = 0;
  for (const MobileBlock& block : stage) left += static_cast<double>(block.repeats);
  double scaled = std::ceil(left * depth);
  std::vector<MobileBlock> blocks;
  for (size_t i = stage.size(); i-- > 0;) {
    const auto repeats = static_cast<double>(stage[i].repeats);
    const double count = std::max(1.0, std::nearbyint(repeats / left * scaled));
    left -= repeats, scaled -= count;
    MobileBlock one = stage[i];
    one.repeats = 1;
    blocks.insert(blocks.begin(), static_cast<size_t>(count), one);
  }
  for (size_t i = 1; i < blocks.size(); ++i) blocks[i].stride = 1;
  return blocks;
}

std::string mobile_activation(MobileKind kind, bool is_minimal) {
  if (kind == MobileKind::kSmallV3 || kind == MobileKind::kLargeV3) return is_minimal ? "relu" : "hardswish";
  return kind == MobileKind::kV2 || kind == MobileKind::kLite ? "relu6" : "silu";
}

int64_t mobile_stem(MobileKind kind) {
  if (kind == MobileKind::kSmallV3 || kind == MobileKind::kLargeV3) return 16;
  return kind == MobileKind::kEfficientV2S || kind == MobileKind::kV2M ? 24 : 32;
}

}  // namespace

bool MobileDesign::is_name(const std::string& name) { return find_mobile_name(name) != nullptr; }

int64_t MobileDesign::near_multiple(double channels, double least) {
  const int64_t near = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(near) < least * channels ? near + 8 : near;
}

MobileDesign::MobileDesign(const TimmArguments& timm) {
  const MobileName* known = find_mobile_name(timm.name);
  if (!known) fail("{}: architecture: {} is no mobile network that is known", timm.where, quoted(timm.name));
  const MobileKind kind = known->kind;
  pools_first = kind == MobileKind::kSmallV3 || kind == MobileKind::kLargeV3;
  // What timm's builders take; the names say the first two, others are as they are for those.
  const double width = timm.given.get_float("channel_multiplier", known->channels),
               depth = timm.given.get_float("depth_multiplier", known->depth);
  if (!(width > 0 && width <= 16 && depth > 0 && depth <= 16))
    fail("{}: channel_multiplier and depth_multiplier: expected numbers above 0, up to 16, found {} and {}",
         timm.given.where(), width, depth);
  const double least = kind == MobileKind::kEfficientV2Base ? 0 : 0.9;
  const auto scaled = [&](int64_t channels) { return near_multiple(static_cast<double>(channels) * width, least); };
  const bool fixed_stem = pools_first ? width < 0.75 : known->fixed_ends;
  stem = fixed_stem ? mobile_stem(kind) : scaled(mobile_stem(kind));
  if (kind == MobileKind::kSmallV3) features = 1024;
  else if (kind == MobileKind::kV2 && !known->fixed_ends) features = std::max<int64_t>(1280, scaled(1280));
  else if (kind == MobileKind::kEfficient || kind == MobileKind::kEfficientV2Base || kind == MobileKind::kEfficientV2S)
    features = scaled(1280);
  features = positive(timm.given, "num_features", features, 1 << 16);
  const MobileStages written = mobile_stages_of(*known);
  for (size_t i = 0; i < written.size(); ++i) {
    const bool end = i == 0 || i + 1 == written.size();
    stages.push_back(scaled_mobile_stage(written[i], end && known->fixed_ends ? 1 : depth));
    for (MobileBlock& block : stages.back()) block.channels = scaled(block.channels);
  }
  act_layer = timm.activation(mobile_activation(kind, known->name.find("minimal") != known->name.npos));
  global_pool = timm.pooling("avg");
  const bool of_tensorflow = timm.name.starts_with("tf_");
  const std::string padding = timm.given.get_string("pad_type", of_tensorflow ? "same" : "");
  if (!padding.empty() && padding != "same")
    fail(ErrorKind::kUnsupported, "{}: pad_type = {} is not carried out; same is", timm.given.where(), quoted(padding));
  same_padding = padding == "same";
  norm_epsilon = timm.given.get_float("bn_eps", of_tensorflow ? kTensorFlowEpsilon : norm_epsilon);
  norm_momentum = timm.given.get_float("bn_momentum", norm_momentum);
  timm.expect_all_read();
}

}  // namespace transom
