// SPDX-License-Identifier: Apache-2.0
#include "models/families/layoutlmv3/layoutlmv3_body.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "models/family.h"
#include "models/shared/relative_buckets.h"

namespace transom {
namespace {

constexpr int64_t kPage = 1000;           // extents of a page, in the numbers of boxes
constexpr int64_t kLargestExtent = 1023;  // heights and widths beyond it count as this, whatever the tables' sizes
constexpr int64_t kMost = 1 << 20;        // of a field that decides a size
constexpr double kPictureEpsilon = 1e-6;  // whatever layer_norm_eps says

// Half of the buckets of a side hold a distance each: there must be one, and a farther distance than these.
void expect_buckets(const char* count_name, int64_t count, const char* farthest_name, int64_t farthest) {
  if (count < 4) fail("config.json: {}: expected 4 or more, found {}", count_name, count);
  if (farthest <= count / 4)
    fail("config.json: {}: expected more than {}, a quarter of {}, found {}", farthest_name, count / 4, count_name,
         farthest);
}

}  // namespace

LayoutLMv3Config::LayoutLMv3Config(const Config& config)
    : BertConfig(with_defaults(config, R"({"vocab_size": 50265, "layer_norm_eps": 1e-5, "pad_token_id": 1})")),
      max_2d_position_embeddings(positive(config, "max_2d_position_embeddings", 1024)),
      coordinate_size(positive(config, "coordinate_size", 128)),
      shape_size(positive(config, "shape_size", 128)),
      input_size(positive(config, "input_size", 224, kMost)),
      num_channels(positive(config, "num_channels", 3)),
      rel_pos_bins(positive(config, "rel_pos_bins", 32, kMost)),
      max_rel_pos(positive(config, "max_rel_pos", 128, kMost)),
      rel_2d_pos_bins(positive(config, "rel_2d_pos_bins", 64, kMost)),
      max_rel_2d_pos(positive(config, "max_rel_2d_pos", 256, kMost)),
      patch_size(config.get_pair("patch_size", 16)),
      has_relative_attention_bias(config.get_bool("has_relative_attention_bias", true)),
      has_spatial_attention_bias(config.get_bool("has_spatial_attention_bias", true)),
      visual_embed(config.get_bool("visual_embed", true)) {
  refuse_unless(config, "is_decoder", "false");
  refuse_unless(config, "text_embed", "true");
  if (!pad_token_id) fail("config.json: pad_token_id: expected a number, behind which positions begin, found null");
  if (4 * coordinate_size + 2 * shape_size != hidden_size)
    fail("config.json: 4 coordinate_size + 2 shape_size: expected hidden_size {}, found 4 * {} + 2 * {}", hidden_size,
         coordinate_size, shape_size);
  if (has_relative_attention_bias) expect_buckets("rel_pos_bins", rel_pos_bins, "max_rel_pos", max_rel_pos);
  if (has_spatial_attention_bias) expect_buckets("rel_2d_pos_bins", rel_2d_pos_bins, "max_rel_2d_pos", max_rel_2d_pos);
  if (patch_size[0] != patch_size[1])
    fail("config.json: patch_size: expected one number, found {} and {}", patch_size[0], patch_size[1]);
}

LayoutLMv3TextEmbeddings::LayoutLMv3TextEmbeddings(const Scope& scope, const LayoutLMv3Config& c)
    : word_embeddings_(scope / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                       c.pad_token_id.value()),
      token_type_embeddings_(scope / "token_type_embeddings", c.type_vocab_size, c.hidden_size, c.initializer_range),
      layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      position_embeddings_(scope / "position_embeddings", c.max_position_embeddings, c.hidden_size, c.initializer_range,
                           c.pad_token_id.value()),
      boxes_(scope, {.count = c.max_2d_position_embeddings,
                     .corner_width = c.coordinate_size,
                     .extent_width = c.shape_size,
                     .deviation = c.initializer_range,
                     .largest_extent = kLargestExtent}),
      dropout_(c.hidden_dropout_prob) {}

Tensor LayoutLMv3TextEmbeddings::operator()(const EncoderInputs& in, const Tensor& boxes,
                                            ForwardContext& context) const {
  const Tensor words = in.input_ids.defined() ? word_embeddings_(in.input_ids, context) : in.inputs_embeds;
  const Tensor types = in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64);
  const Tensor x = words + token_type_embeddings_(types, context) + position_embeddings_(in.position_ids, context) +
                   concatenate(boxes_(boxes, context), 2);
  return dropout_(layer_norm_(x, context), context);
}

PictureTokens::PictureTokens(const Scope& scope, const LayoutLMv3Config& c)
    : grid(patch_grid({c.input_size, c.input_size}, c.patch_size)[0]),
      cls_token(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::zeros())),
      pos_embed(scope.parameter("pos_embed", {1, 1 + grid * grid, c.hidden_size}, Initial::zeros())) {}

LayoutLMv3Picture::LayoutLMv3Picture(const Scope& scope, const LayoutLMv3Config& c, PictureTokens tokens)
    : side_(c.input_size),
      channels_(c.num_channels),
      tokens_(std::move(tokens)),
      patch_embed_(scope / "patch_embed" / "proj", c.num_channels, c.hidden_size, c.patch_size, c.initializer_range),
      layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      norm_(scope / "norm", c.hidden_size, kPictureEpsilon),
      dropout_(c.hidden_dropout_prob) {}

Tensor LayoutLMv3Picture::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor& image = image_input(inputs, channels_);
  if (size_of(image) != Extents{side_, side_})
    fail("pixel_values: expected pictures of {0}x{0}, found {1}x{2}", side_, size_of(image)[0], size_of(image)[1]);
  const Tensor patches = patch_embed_(image, context);
  const Tensor first =
      broadcast_to(cast(tokens_.cls_token->value, patches.dtype()), {patches.dim(0), 1, patches.dim(2)});
  return norm_(concatenate({first, patches}, 1) + cast(tokens_.pos_embed->value, patches.dtype()), context);
}

Tensor LayoutLMv3Picture::boxes(int64_t batch) const {
  std::vector<int64_t> corners{1, 1, kPage - 1, kPage - 1};  // of the first token
  for (int64_t y = 0; y < tokens_.grid; ++y)
    for (int64_t x = 0; x < tokens_.grid; ++x)
      for (const int64_t edge : {x, y, x + 1, y + 1}) corners.push_back(kPage * edge / tokens_.grid);
  const int64_t places = 1 + tokens_.grid * tokens_.grid;
  return broadcast_to(Tensor::from(corners, {1, places, 4}), {batch, places, 4});
}

Tensor LayoutLMv3Picture::joined(const Tensor& words, const Tensor& patches, ForwardContext& context) const {
  return dropout_(layer_norm_(concatenate({words, patches}, 1), context), context);
}

DistanceBias::DistanceBias(const Scope& scope, const LayoutLMv3Config& config, int64_t buckets, int64_t farthest)
    : buckets_(buckets),
      farthest_(farthest),
      weight_(scope.parameter("weight", {config.num_attention_heads, buckets},
                              Initial::normal(config.initializer_range))) {}

Tensor DistanceBias::operator()(const Tensor& places, const ForwardContext& context) const {
  const Tensor distance = unsqueeze(places, 1) - unsqueeze(places, 2);  // [.., S queries, S keys]
  const auto rows = [&](const Tensor& ids, const ForwardContext&) {
    return permute(gather(weight_->value, ids, 1), {1, 0});
  };
  return bucketed_bias(rows, {.count = buckets_, .farthest = farthest_}, distance, context);
}

LayoutLMv3Body::LayoutLMv3Body(const Scope& scope, const LayoutLMv3Config& c)
    : config_(c),
      tokens_(c.visual_embed ? std::optional<PictureTokens>(std::in_place, scope, c) : std::nullopt),
      embeddings_(scope / "embeddings", c) {
  if (tokens_) picture_.emplace(scope, c, *tokens_);
  const Scope encoder = scope / "encoder";
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(encoder / "layer" / i, c, i);
  if (c.has_relative_attention_bias) rel_pos_bias_.emplace(encoder / "rel_pos_bias", c, c.rel_pos_bins, c.max_rel_pos);
  if (!c.has_spatial_attention_bias) return;
  rel_pos_x_bias_.emplace(encoder / "rel_pos_x_bias", c, c.rel_2d_pos_bins, c.max_rel_2d_pos);
  rel_pos_y_bias_.emplace(encoder / "rel_pos_y_bias", c, c.rel_2d_pos_bins, c.max_rel_2d_pos);
}

// [B or 1, H, S, S], or empty. The tables are not trained, and those of boxes count beside that of places alone, as in
// Transformers. Words and places of the picture count from 0 each.
Tensor LayoutLMv3Body::position_bias(int64_t length, const Tensor& boxes, ForwardContext& context) const {
  if (!rel_pos_bias_) return {};
  const int64_t S = boxes.dim(1);
  Tensor places = iota({1, length}, 1);
  if (S > length) places = concatenate({places, iota({1, S - length}, 1)}, 1);
  Tensor bias = (*rel_pos_bias_)(places, context);
  if (rel_pos_x_bias_) {
    const auto edge = [&](int64_t i) { return squeeze(slice(boxes, 2, i, i + 1), 2); };  // left: 0, lower: 3
    bias = (*rel_pos_x_bias_)(edge(0), context) + (*rel_pos_y_bias_)(edge(3), context) + bias;
  }
  const double width = static_cast<double>(config_.hidden_size / config_.num_attention_heads);
  return bias.detach() * (1 / std::sqrt(width));
}

EncoderOutput LayoutLMv3Body::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderInputs in = encoder_inputs(inputs, config_.max_position_embeddings, config_.pad_token_id);
  Tensor boxes = word_boxes(inputs, in), mask = in.mask;
  Tensor x = embeddings_(in, boxes, context);
  if (inputs.find("pixel_values").defined()) {
    if (!picture_) fail("pixel_values: this model reads no pictures: visual_embed is false in its config.json");
    const Tensor patches = (*picture_)(inputs, context);
    const int64_t B = x.dim(0), P = patches.dim(1);
    if (patches.dim(0) != B) fail("pixel_values: expected {} pictures, one for each row, found {}", B, patches.dim(0));
    if (mask.defined()) {
      if (mask.dim(2) != 1) fail("attention_mask: expected [batch, length] beside pixel_values");
      mask = concatenate({mask, zeros({mask.dim(0), 1, 1, P}, mask.dtype())}, 3);
    }
    boxes = concatenate({boxes, picture_->boxes(B)}, 1);
    x = picture_->joined(x, patches, context);
  }
  if (const Tensor bias = position_bias(in.length, boxes, context); bias.defined())
    mask = mask.defined() ? bias + mask : bias;
  return through_layers(layers_, x, mask, context);
}

}  // namespace transom
