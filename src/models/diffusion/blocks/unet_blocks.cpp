// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/unet_blocks.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr size_t kMostBlocks = 16;
constexpr int64_t kMostLayers = 100, kMostChannels = int64_t{1} << 20;

std::vector<int64_t> channels_down(int64_t in, int64_t out, int64_t layers) {
  std::vector<int64_t> channels(static_cast<size_t>(layers), out);
  if (!channels.empty()) channels[0] = in;
  return channels;
}

std::vector<int64_t> channels_up(int64_t below, int64_t skip, int64_t out, int64_t layers) {
  std::vector<int64_t> channels(static_cast<size_t>(layers), 2 * out);
  channels.front() += below - out;
  channels.back() += skip - out;
  return channels;
}

ResidualOptions resampling_block(const UNetBlockOptions& options, ResidualOptions::Resampling way) {
  ResidualOptions block = options.residual;
  block.resampling = way;
  return block;
}

}  // namespace

UNetBlockOptions::Attention block_attention(const std::string& type, const std::string& way, const Config& config,
                                            const std::string& field) {
  using enum UNetBlockOptions::Attention;
  if (type == way + "Block2D" || type == "UNetRes" + way + "Block2D") return kNone;
  if (type == "Attn" + way + "Block2D" || type == "UNetResAttn" + way + "Block2D") return kMap;
  if (type == "CrossAttn" + way + "Block2D") return kText;
  fail(ErrorKind::kUnsupported, "{}: {}: expected {}Block2D, Attn{}Block2D or CrossAttn{}Block2D, found {}",
       config.where(), field, way, way, way, quoted(type));
}

UNetLayers::UNetLayers(const Scope& scope, const std::vector<int64_t>& in, int64_t out,
                       const UNetBlockOptions& options) {
  for (size_t i = 0; i < in.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    residuals_.emplace_back(scope / "resnets" / number, in[i], out, options.residual);
    const Scope attention = scope / "attentions" / number;
    if (options.attention == UNetBlockOptions::Attention::kMap)
      map_attentions_.emplace_back(attention, out, options.head_width, options.residual.groups,
                                   options.residual.epsilon, 1);
    if (options.attention == UNetBlockOptions::Attention::kText)
      text_attentions_.emplace_back(attention, out, options.transformers.at(i));
  }
}

Tensor UNetLayers::operator()(size_t layer, const Tensor& x, const Told& told, ForwardContext& context) const {
  const Tensor h = residuals_[layer](x, told.time, context);
  if (!map_attentions_.empty()) return map_attentions_[layer](h, context);
  if (!text_attentions_.empty()) return text_attentions_[layer](h, told.text, told.text_mask, context);
  return h;
}

UNetDownBlock::UNetDownBlock(const Scope& scope, int64_t in, int64_t out, const UNetBlockOptions& options)
    : layers_(scope, channels_down(in, out, options.layers), out, options) {
  if (!options.resamples) return;
  const Scope last = scope / "downsamplers" / 0;
  if (options.resamples_by_block)
    downsample_block_.emplace(last, out, out, resampling_block(options, ResidualOptions::Resampling::kDown));
  else downsample_.emplace(last, out, options.downsample_padding);
}

Tensor UNetDownBlock::operator()(Tensor x, const Told& told, std::vector<Tensor>& skips,
                                 ForwardContext& context) const {
  for (size_t i = 0; i < layers_.size(); ++i) skips.push_back(x = layers_(i, x, told, context));
  if (downsample_) skips.push_back(x = (*downsample_)(x, context));
  if (downsample_block_) skips.push_back(x = (*downsample_block_)(x, told.time, context));
  return x;
}

UNetUpBlock::UNetUpBlock(const Scope& scope, int64_t below, int64_t skip, int64_t out, const UNetBlockOptions& options)
    : layers_(scope, channels_up(below, skip, out, options.layers), out, options) {
  if (!options.resamples) return;
  const Scope last = scope / "upsamplers" / 0;
  if (options.resamples_by_block)
    upsample_block_.emplace(last, out, out, resampling_block(options, ResidualOptions::Resampling::kUp));
  else upsample_.emplace(last, out);
}

Tensor UNetUpBlock::operator()(Tensor x, const Told& told, std::vector<Tensor>& skips, ForwardContext& context) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = layers_(i, concatenate({x, skips.back()}, 1), told, context);
    skips.pop_back();
  }
  if (upsample_) x = (*upsample_)(x, skips.back().dim(2), skips.back().dim(3), context);
  if (upsample_block_) x = (*upsample_block_)(x, told.time, context);
  return x;
}

UNetMidBlock::UNetMidBlock(const Scope& scope, int64_t channels, const Options& o) {
  for (int64_t i = 0; i < (o.has_second ? 2 : 1); ++i)
    residuals_.emplace_back(scope / "resnets" / i, channels, channels, o.residual);
  const Scope attention = scope / "attentions" / 0;
  if (o.attention == UNetBlockOptions::Attention::kMap)
    map_attention_.emplace(attention, channels, o.head_width, o.attention_groups, o.residual.epsilon,
                           o.residual.output_scale);
  if (o.attention == UNetBlockOptions::Attention::kText) text_attention_.emplace(attention, channels, o.transformer);
}

Tensor UNetMidBlock::operator()(Tensor x, const Told& told, ForwardContext& context) const {
  x = residuals_[0](x, told.time, context);
  if (map_attention_) x = (*map_attention_)(x, context);
  if (text_attention_) x = (*text_attention_)(x, told.text, told.text_mask, context);
  return residuals_.size() > 1 ? residuals_[1](x, told.time, context) : x;
}

std::vector<int64_t> per_block(const Config& config, const std::string& field, int64_t otherwise, size_t count) {
  const Json value = parse_json(config.get_json(field), config.where());
  if (!value.is_array()) return std::vector<int64_t>(count, config.get_int(field, otherwise));
  const std::vector<int64_t> all = config.get_ints(field);
  if (all.size() != count)
    fail("{}: {}: expected a number, or one for each of {} blocks, found {}", config.where(), field, count,
         value.dump());
  return all;
}

std::vector<int64_t> block_channels(const Config& config, std::vector<int64_t> otherwise) {
  std::vector<int64_t> channels = config.get_ints("block_out_channels", std::move(otherwise));
  const bool fits =
      std::all_of(channels.begin(), channels.end(), [](int64_t count) { return count >= 1 && count <= kMostChannels; });
  if (channels.empty() || channels.size() > kMostBlocks || !fits)
    fail("{}: block_out_channels: expected 1 to {} numbers from 1 to {}, found {}", config.where(), kMostBlocks,
         kMostChannels, config.get_json("block_out_channels"));
  for (const int64_t layers : per_block(config, "layers_per_block", 1, channels.size()))
    if (layers < 1 || layers > kMostLayers)
      fail("{}: layers_per_block: expected 1 to {}, found {}", config.where(), kMostLayers, layers);
  return channels;
}

void refuse_field(const Config& config, const std::string& field, const std::string& why) {
  if (config.has(field))
    fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out: {}", config.where(), field, config.get_json(field),
         why);
}

std::string diffusion_activation(const Config& config, const std::string& field, const std::string& otherwise) {
  const std::string name = config.get_string(field, otherwise);
  for (const char* known : {"silu", "swish", "mish", "gelu", "relu"})
    if (name == known) return name;
  fail(ErrorKind::kUnsupported, "{}: {}: expected silu, swish, mish, gelu or relu, found {}", config.where(), field,
       quoted(name));
}

}  // namespace transom
