// SPDX-License-Identifier: Apache-2.0
#include "models/families/mask2former/mask2former_pixels.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "graph/ops/attention/deformable_attention.h"
#include "models/families/detr/detr_backbone.h"
#include "models/families/rt_detr/rt_detr_decoder.h"
#include "models/nn/vision/upsampling.h"

namespace transom {
namespace {

constexpr const char *kSwinType = "swin", *kResNetType = "resnet";
constexpr int64_t kPixelPoints = 4, kPixelGroups = 32;  // whatever the configuration says
constexpr double kPixelEpsilon = 1e-5;

bool is_swin(const Config& backbone) {
  const std::string type = backbone.get_string("model_type", "");
  if (type != kSwinType && type != kResNetType)
    fail(ErrorKind::kUnsupported, "{}: backbones of model_type {} are not carried out; {} and {} are", backbone.where(),
         quoted(type), kSwinType, kResNetType);
  return type == kSwinType;
}

std::vector<int64_t> mask2former_stages(const Config& backbone) {
  const size_t stages = backbone.get_ints("depths", {2, 2, 6, 2}).size();
  return backbone_stages(backbone, "stage", static_cast<int64_t>(stages));
}

// Of an axis: [extent, width], sines and cosines in turn.
Tensor mask2former_sinusoids(int64_t extent, int64_t width) {
  std::vector<float> values;
  const float last = static_cast<float>(extent) + 1e-6F;
  for (int64_t i = 1; i <= extent; ++i) {
    const float at = static_cast<float>(i) / last * static_cast<float>(2 * std::numbers::pi);
    for (int64_t k = 0; k < width; ++k) {
      const float angle = at / std::pow(10000.0F, static_cast<float>(k / 2 * 2) / static_cast<float>(width));
      values.push_back(k % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from(values, {extent, width});
}

// The maps behind each other as one sequence.
struct PixelPlaces {
  Axes heights, widths;
  Tensor centres;    // f32 [S, 2]: (x, y) of each place, in parts of its map
  Tensor positions;  // [1, S, D]
};

Tensor centres_of_places(const Axes& heights, const Axes& widths) {
  std::vector<float> values;
  for (size_t map = 0; map < heights.size(); ++map)
    for (int64_t y = 0; y < heights[map]; ++y)
      for (int64_t x = 0; x < widths[map]; ++x) {
        values.push_back((static_cast<float>(x) + 0.5F) / static_cast<float>(widths[map]));
        values.push_back((static_cast<float>(y) + 0.5F) / static_cast<float>(heights[map]));
      }
  const auto S = static_cast<int64_t>(values.size()) / 2;
  return Tensor::from(values, {S, 2});
}

}  // namespace

Tensor mask2former_positions(int64_t height, int64_t width_of_map, int64_t width) {
  const int64_t half = width / 2;
  const Tensor rows = unsqueeze(mask2former_sinusoids(height, half), 1),
               columns = unsqueeze(mask2former_sinusoids(width_of_map, half), 0);
  const Shape shape{height, width_of_map, half};
  return reshape(concatenate({broadcast_to(rows, shape), broadcast_to(columns, shape)}, 2),
                 {1, height * width_of_map, width});
}

Mask2FormerBackbone::Body Mask2FormerBackbone::make_body(const Config& backbone, const std::vector<int64_t>& stages,
                                                         const Scope& scope) {
  if (is_swin(backbone)) return Body(std::in_place_type<SwinBackbone>, backbone, scope, stages);
  return Body(std::in_place_type<Plain>, backbone, scope);
}

Mask2FormerBackbone::Mask2FormerBackbone(const Config& config, const Scope& scope)
    : backbone_(mask2former_backbone_config(config)),
      stages_(mask2former_stages(backbone_)),
      body_(make_body(backbone_, stages_, scope)) {
  for (const int64_t stage : stages_)
    widths_.push_back(std::visit([&](const auto& body) { return body.width_of_stage(stage); }, body_));
  if (std::ssize(widths_) < kMask2FormerLevels)
    fail("{}: out_features: expected {} maps or more, found {}", backbone_.where(), kMask2FormerLevels, widths_.size());
}

std::vector<Tensor> Mask2FormerBackbone::operator()(const Tensor& image, ForwardContext& context) const {
  if (const auto* swin = std::get_if<SwinBackbone>(&body_)) return (*swin)(image, context);
  const FeatureMaps maps = std::get<Plain>(body_)(image, context);
  std::vector<Tensor> chosen;
  for (const int64_t stage : stages_) chosen.push_back(maps.hidden_states[static_cast<size_t>(stage)]);
  return chosen;
}

int64_t Mask2FormerBackbone::num_channels() const {
  return std::visit([](const auto& body) { return body.num_channels(); }, body_);
}

// Each place looks at four places of every map around its own, with each head.
class Mask2FormerPixelLayer {
 public:
  Mask2FormerPixelLayer(const Scope& scope, const Mask2FormerConfig& c)
      : path_((scope / "self_attn").path()),
        heads_(c.num_attention_heads),
        sampling_offsets_(scope / "self_attn" / "sampling_offsets", c.feature_size, 2 * places(), 0,
                          Initial::given(first_looked_at_offsets(heads_, kMask2FormerLevels, kPixelPoints))),
        attention_weights_(scope / "self_attn" / "attention_weights", c.feature_size, places(), {.deviation = 0}),
        value_proj_(scope / "self_attn" / "value_proj", c.feature_size, c.feature_size,
                    {.deviation = glorot_deviation(c.feature_size, c.feature_size)}),
        output_proj_(scope / "self_attn" / "output_proj", c.feature_size, c.feature_size,
                     {.deviation = glorot_deviation(c.feature_size, c.feature_size)}),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", c.feature_size, kPixelEpsilon),
        fc1_(scope / "fc1", c.feature_size, c.encoder_feedforward_dim, {.deviation = c.init_std}),
        fc2_(scope / "fc2", c.encoder_feedforward_dim, c.feature_size, {.deviation = c.init_std}),
        final_layer_norm_(scope / "final_layer_norm", c.feature_size, kPixelEpsilon),
        dropout_(c.dropout) {}

  Tensor operator()(const Tensor& x, const PixelPlaces& at, ForwardContext& context) const {  // [B, S, D]
    const Tensor seen = self_attn_layer_norm_(x + dropout_(looked_at(x, at, context), context), context);
    const Tensor inner = dropout_(relu(fc1_(seen, context)), context);
    return final_layer_norm_(seen + dropout_(fc2_(inner, context), context), context);
  }

 private:
  int64_t places() const { return heads_ * kMask2FormerLevels * kPixelPoints; }

  Tensor looked_at(const Tensor& x, const PixelPlaces& at, ForwardContext& context) const {
    const int64_t B = x.dim(0), S = x.dim(1), D = x.dim(2), each = kMask2FormerLevels * kPixelPoints;
    const Tensor queries = x + cast(at.positions, x.dtype());
    const Tensor values = reshape(value_proj_(x, context), {B, S, heads_, D / heads_});
    const DType wide = DType::kFloat32;
    const Tensor offsets = reshape(cast(sampling_offsets_(queries, context), wide), {B, S, heads_, each, 2});
    const Tensor weights =
        softmax(reshape(cast(attention_weights_(queries, context), wide), {B, S, heads_, each}), context.computing);
    std::vector<float> extents;
    for (size_t map = 0; map < at.heights.size(); ++map)
      for (int64_t point = 0; point < kPixelPoints; ++point)
        for (const int64_t extent : {at.widths[map], at.heights[map]}) extents.push_back(static_cast<float>(extent));
    const Tensor places = reshape(at.centres, {1, S, 1, 1, 2}) + offsets / Tensor::from(extents, {each, 2});
    Tensor seen;
    {
      const ModuleScope module(path_);
      seen = deformable_attention(values, places, weights,
                                  {.heights = at.heights, .widths = at.widths, .points = kPixelPoints});
    }
    return output_proj_(reshape(seen, {B, S, D}), context);
  }

  std::string path_;
  int64_t heads_;
  RTDetrLinear sampling_offsets_;
  Linear attention_weights_, value_proj_, output_proj_;
  LayerNorm self_attn_layer_norm_;
  Linear fc1_, fc2_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
};

Mask2FormerPixelModule::Projection Mask2FormerPixelModule::projection(const Scope& scope, int64_t in, int64_t out,
                                                                      int64_t window, bool bias) {
  Convolution::Options options = Convolution::same(window, 1, 1, bias);
  options.deviation = torch_deviation(in * window * window);
  return {Convolution(scope / 0, in, out, {window, window}, options),
          GroupNorm(scope / 1, kPixelGroups, out, kPixelEpsilon)};
}

Mask2FormerPixelModule::Mask2FormerPixelModule(const Config& config, const Mask2FormerConfig& c, const Scope& scope)
    : c_(c),
      backbone_(config, scope / "encoder"),
      level_embed_(
          (scope / "decoder").parameter("level_embed", {kMask2FormerLevels, c.feature_size}, Initial::normal(1))),
      mask_projection_(
          torch_convolution(scope / "decoder" / "mask_projection", c.feature_size, c.mask_feature_size, 1)) {
  const Scope decoder = scope / "decoder";
  const std::vector<int64_t>& widths = backbone_.widths();
  if (c.finer_maps > std::ssize(widths))
    fail("{}: feature_strides and common_stride: expected at most {} finer maps, those of the backbone, found {}",
         config.where(), widths.size(), c.finer_maps);
  for (int64_t i = 0; i < kMask2FormerLevels; ++i)
    input_projections_.push_back(projection(decoder / "input_projections" / i,
                                            widths[widths.size() - 1 - static_cast<size_t>(i)], c.feature_size, 1,
                                            true));
  for (int64_t i = 0; i < c.encoder_layers; ++i) layers_.emplace_back(decoder / "encoder" / "layers" / i, c);
  for (int64_t i = 0; i < c.finer_maps; ++i) {
    const std::string number = std::to_string(i + 1);
    adapters_.push_back(
        projection(decoder / ("adapter_" + number), widths[static_cast<size_t>(i)], c.feature_size, 1, false));
    joined_.push_back(projection(decoder / ("layer_" + number), c.feature_size, c.feature_size, 3, false));
  }
}

Mask2FormerPixelModule::~Mask2FormerPixelModule() = default;

Mask2FormerPixels Mask2FormerPixelModule::operator()(const Tensor& image, ForwardContext& context) const {
  const std::vector<Tensor> maps = backbone_(image, context);
  PixelPlaces at;
  std::vector<Tensor> sequences, positions;
  for (size_t i = 0; i < input_projections_.size(); ++i) {
    const Tensor map = input_projections_[i](maps[maps.size() - 1 - i], context);
    at.heights.push_back(map.dim(2)), at.widths.push_back(map.dim(3));
    sequences.push_back(permute(flatten(map, 2, 3), {0, 2, 1}));
    const auto level = static_cast<int64_t>(i);
    positions.push_back(mask2former_positions(map.dim(2), map.dim(3), c_.feature_size) +
                        cast(slice(level_embed_->value, 0, level, level + 1), DType::kFloat32));
  }
  at.positions = concatenate(positions, 1);
  at.centres = centres_of_places(at.heights, at.widths);
  Tensor x = concatenate(sequences, 1);
  for (const Mask2FormerPixelLayer& layer : layers_) x = layer(x, at, context);

  Mask2FormerPixels pixels{.last_map = maps.back(), .maps = {}, .features = {}};
  int64_t begin = 0;
  for (size_t i = 0; i < at.heights.size(); ++i) {
    const int64_t count = at.heights[i] * at.widths[i];
    pixels.maps.push_back(reshape(permute(slice(x, 1, begin, begin + count), {0, 2, 1}),
                                  {x.dim(0), c_.feature_size, at.heights[i], at.widths[i]}));
    begin += count;
  }
  Tensor finest = pixels.maps.back();
  for (size_t i = adapters_.size(); i-- > 0;) {
    const Tensor own = adapters_[i](maps[i], context);
    const Tensor large = resize_bilinear(finest, own.dim(2), own.dim(3), false, context.computing);
    finest = relu(joined_[i](own + large, context));
  }
  pixels.features = mask_projection_(finest, context);
  return pixels;
}

}  // namespace transom
