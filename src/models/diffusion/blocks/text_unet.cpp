// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/text_unet.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/family.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

// A number for each block, or a list of numbers for its layers.
std::vector<std::vector<int64_t>> transformer_layers(const Config& config, const std::string& field, size_t blocks,
                                                     const std::vector<int64_t>& layers) {
  const Json value = parse_json(config.get_json(field), config.where());
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 0; i < blocks; ++i) {
    const Json each = value.is_null() ? Json(1) : value.is_array() && i < value.size() ? value[i] : value;
    const auto count = static_cast<size_t>(layers[i]);
    std::vector<int64_t> numbers(count, 1);
    const auto number = [&](const Json& json) {
      if (!json.is_number_integer() || json.get<double>() < 0 || json.get<double>() > 1000)
        fail("{}: {}: expected whole numbers from 0 to 1000, found {}", config.where(), field, value.dump());
      return json.get<int64_t>();
    };
    if (each.is_array() && !(value.is_array() && value.size() != blocks)) {
      if (each.size() != count)
        fail("{}: {}: expected a number for each of {} layers, found {}", config.where(), field, count, each.dump());
      for (size_t k = 0; k < count; ++k) numbers[k] = number(each[k]);
    } else std::fill(numbers.begin(), numbers.end(), number(each));
    all.push_back(std::move(numbers));
  }
  return all;
}

std::vector<bool> flags_per_block(const Config& config, const std::string& field, size_t blocks) {
  const Json value = parse_json(config.get_json(field), config.where());
  if (!value.is_array()) return std::vector<bool>(blocks, config.get_bool(field, false));
  std::vector<bool> flags;
  for (const Json& flag : value) flags.push_back(flag.is_boolean() && flag.get<bool>());
  if (flags.size() != blocks)
    fail("{}: {}: expected true, false, or one for each of {} blocks, found {}", config.where(), field, blocks,
         value.dump());
  return flags;
}

std::vector<std::string> block_types(const Config& config, const std::string& field, std::vector<std::string> otherwise,
                                     size_t blocks) {
  std::vector<std::string> types = config.has(field) ? config.get_strings(field) : std::move(otherwise);
  if (types.size() != blocks)
    fail("{}: {}: expected as many as block_out_channels, {}, found {}", config.where(), field, blocks, types.size());
  return types;
}

int64_t odd_window(const Config& config, const std::string& field) {
  const int64_t window = config.get_int(field, 3);
  if (window < 1 || window > 99 || window % 2 == 0)
    fail(ErrorKind::kUnsupported, "{}: {}: expected an odd number from 1 to 99, found {}", config.where(), field,
         window);
  return window;
}

}  // namespace

std::string down_residual(int64_t map) { return fmt::format("down_block_additional_residuals.{}", map); }

TextUNetConfig::TextUNetConfig(const Config& config, bool has_way_up)
    : channels(block_channels(config, {320, 640, 1280, 1280})),
      layers(per_block(config, "layers_per_block", 2, channels.size())),
      context(per_block(config, "cross_attention_dim", 1280, channels.size())),
      head_widths(per_block(config, "attention_head_dim", 8, channels.size())),
      heads(!has_way_up && config.has("num_attention_heads")
                ? per_block(config, "num_attention_heads", 8, channels.size())
                : head_widths),
      down_types(block_types(config, "down_block_types",
                             {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"},
                             channels.size())),
      up_types(has_way_up ? block_types(config, "up_block_types",
                                        {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"},
                                        channels.size())
                          : std::vector<std::string>{}),
      only_cross(flags_per_block(config, "only_cross_attention", channels.size())),
      in_channels(positive(config, "in_channels", 4)),
      out_channels(positive(config, "out_channels", 4)),
      groups(positive(config, "norm_num_groups", 32)),
      in_window(odd_window(config, "conv_in_kernel")),
      out_window(odd_window(config, "conv_out_kernel")),
      downsample_padding(config.get_int("downsample_padding", 1)),
      time_width(config.get_int("time_embedding_dim", 4 * channels.front())),
      condition_width(config.get_int("time_cond_proj_dim", 0)),
      text_width(config.get_int("encoder_hid_dim", 0)),
      classes(config.get_int("num_class_embeds", 0)),
      projected_width(config.get_int("projection_class_embeddings_input_dim", 0)),
      addition_width(config.get_int("addition_time_embed_dim", 0)),
      epsilon(config.get_float("norm_eps", 1e-5)),
      dropout(config.get_float("dropout", 0)),
      mid_scale(config.get_float("mid_block_scale_factor", 1)),
      frequency_shift(config.get_float("freq_shift", 0)),
      centres(config.get_bool("center_input_sample", false)),
      cosines_first(config.get_bool("flip_sin_to_cos", true)),
      linear_projection(config.get_bool("use_linear_projection", false)),
      concatenates_class(config.get_bool("class_embeddings_concat", false)),
      // A null counts as absent in a Config, but here it means that there is no block.
      has_mid(config.has("mid_block_type") || !json_of(config).contains("mid_block_type")),
      activation(diffusion_activation(config, "act_fn", "silu")),
      last_time_activation(config.has("timestep_post_act") ? diffusion_activation(config, "timestep_post_act", "silu")
                                                           : ""),
      time_activation(
          config.has("time_embedding_act_fn") ? diffusion_activation(config, "time_embedding_act_fn", "silu") : ""),
      mid_type(config.get_string("mid_block_type", "UNetMidBlock2DCrossAttn")),
      class_type(config.get_string("class_embed_type", classes > 0 ? "table" : "")),
      addition_type(config.get_string("addition_embed_type", "")),
      transformers(transformer_layers(config, "transformer_layers_per_block", channels.size(), layers)) {
  if (has_way_up) read_reversed(config);
  check(config);
  if (has_way_up) refuse_field(config, "num_attention_heads", "attention_head_dim is their number");
}

ResidualOptions TextUNetConfig::residual() const {
  const int64_t told = concatenates_class ? 2 * time_width : time_width;
  return {.time_channels = told,
          .groups = groups,
          .epsilon = epsilon,
          .dropout = dropout,
          .activation = activation,
          .scales_by_time = scales_by_time};
}
MapTransformerOptions TextUNetConfig::transformer(size_t block, int64_t depth) const {
  return {.heads = heads[block],
          .layers = depth,
          .groups = groups,
          .context_width = context[block],
          .linear_projection = linear_projection,
          .only_cross_attention = only_cross[block]};
}
// `block` counts from the top on the way down; `depths`: of the transformer behind each layer.
UNetBlockOptions TextUNetConfig::block(size_t block, UNetBlockOptions::Attention attention, int64_t count,
                                       const std::vector<int64_t>& depths, bool resamples) const {
  UNetBlockOptions options{.attention = attention,
                           .residual = residual(),
                           .layers = count,
                           .head_width = head_widths[block],
                           .resamples = resamples,
                           .downsample_padding = downsample_padding};
  for (int64_t i = 0; i < count; ++i)
    options.transformers.push_back(transformer(block, depths[std::min(static_cast<size_t>(i), depths.size() - 1)]));
  return options;
}

// On the way up there is one layer more a block; lists of lists are given apart.
void TextUNetConfig::read_reversed(const Config& config) {
  std::vector<int64_t> more(layers.rbegin(), layers.rend());
  for (int64_t& count : more) ++count;
  if (config.has("reverse_transformer_layers_per_block")) {
    up_transformers = transformer_layers(config, "reverse_transformer_layers_per_block", channels.size(), more);
    return;
  }
  for (size_t i = channels.size(); i-- > 0;) {
    const std::vector<int64_t>& depths = transformers[i];
    if (std::adjacent_find(depths.begin(), depths.end(), std::not_equal_to<>()) != depths.end())
      fail("{}: transformer_layers_per_block: layers of different depth need reverse_transformer_layers_per_block",
           config.where());
    up_transformers.push_back(std::vector<int64_t>(static_cast<size_t>(layers[i]) + 1, depths.front()));
  }
}

void TextUNetConfig::check(const Config& config) {
  config.get_json("sample_size");  // of the pipeline, not of the network
  config.get_bool("upcast_attention", false);
  for (const char* of_other_blocks : {"resnet_skip_time_act", "resnet_out_scale_factor", "cross_attention_norm",
                                      "mid_block_only_cross_attention", "addition_embed_type_num_heads"})
    config.get_json(of_other_blocks);  // they act in the blocks and embeddings that are refused
  refuse_unless(config, "dual_cross_attention", "false");
  refuse_unless(config, "attention_type", "default");
  refuse_unless(config, "time_embedding_type", "positional");
  const std::string scale = config.get_string("resnet_time_scale_shift", "default");
  if (scale != "default" && scale != "scale_shift")
    fail(ErrorKind::kUnsupported, "{}: resnet_time_scale_shift: expected default or scale_shift, found {}",
         config.where(), quoted(scale));
  scales_by_time = scale == "scale_shift";
  const std::string text = config.get_string("encoder_hid_dim_type", text_width > 0 ? "text_proj" : "");
  if (!text.empty() && (text != "text_proj" || text_width < 1))
    fail(ErrorKind::kUnsupported, "{}: encoder_hid_dim_type: expected text_proj with an encoder_hid_dim, found {}",
         config.where(), quoted(text));
  if (!addition_type.empty() && (addition_type != "text_time" || addition_width < 2 || projected_width < 1))
    fail(ErrorKind::kUnsupported,
         "{}: addition_embed_type: expected text_time with addition_time_embed_dim and "
         "projection_class_embeddings_input_dim, found {}",
         config.where(), quoted(addition_type));
  for (const char* known : {"", "table", "timestep", "identity", "projection", "simple_projection"})
    if (class_type == known) return check_sizes(config);
  fail(ErrorKind::kUnsupported,
       "{}: class_embed_type: expected timestep, identity, projection or simple_projection, found {}", config.where(),
       quoted(class_type));
}

void TextUNetConfig::check_sizes(const Config& config) const {
  if (class_type.ends_with("projection") && projected_width < 1)
    fail("{}: class_embed_type {} needs projection_class_embeddings_input_dim", config.where(), class_type);
  if (mid_type != "UNetMidBlock2DCrossAttn" && mid_type != "UNetMidBlock2D" && config.has("mid_block_type"))
    fail(ErrorKind::kUnsupported,
         "{}: mid_block_type: expected UNetMidBlock2DCrossAttn, UNetMidBlock2D or null, found {}", config.where(),
         quoted(mid_type));
  for (size_t i = 0; i < channels.size(); ++i)
    if (heads[i] < 1 || heads[i] > channels[i] || context[i] < 1)
      fail("{}: attention_head_dim and cross_attention_dim: expected numbers above 0, and no more heads than {}",
           config.where(), channels[i]);
  if (time_width < 1 || condition_width < 0 || classes < 0)
    fail("{}: time_embedding_dim, time_cond_proj_dim and num_class_embeds: expected numbers above 0", config.where());
}

UNetMidBlock::Options TextUNetConfig::middle() const {
  const size_t last = channels.size() - 1;
  ResidualOptions scaled = residual();
  scaled.output_scale = mid_scale;
  const bool of_text = mid_type == "UNetMidBlock2DCrossAttn";
  MapTransformerOptions of_last = transformer(last, transformers[last].front());
  of_last.only_cross_attention = false;
  return {.attention = of_text ? UNetBlockOptions::Attention::kText : UNetBlockOptions::Attention::kNone,
          .has_second = of_text,
          .residual = scaled,
          .transformer = of_last};
}

std::vector<int64_t> TextUNetConfig::skip_channels() const {
  std::vector<int64_t> all{channels.front()};
  for (size_t i = 0; i < channels.size(); ++i) {
    const bool halves = i + 1 < channels.size();  // the last block does not
    all.insert(all.end(), static_cast<size_t>(layers[i] + (halves ? 1 : 0)), channels[i]);
  }
  return all;
}

void TextUNetConfig::check_sample(const Tensor& sample) const {
  if (sample.rank() != 4 || sample.dim(1) != in_channels)
    fail("sample: expected [batch, {}, height, width], found {}", in_channels, to_string(sample.shape()));
}

TextUNetEncoder::TextUNetEncoder(const Scope& scope, const TextUNetConfig& c, const Config& config)
    : c_(c),
      conv_in_(torch_convolution(scope / "conv_in", c_.in_channels, c_.channels.front(), c_.in_window)),
      time_embedding_(scope / "time_embedding", c_.channels.front(), c_.time_width,
                      {.activation = c_.activation,
                       .last_activation = c_.last_time_activation,
                       .condition_width = c_.condition_width}) {
  add_embeddings(scope);
  const size_t last = c_.channels.size() - 1;
  for (size_t i = 0; i <= last; ++i)
    down_.emplace_back(scope / "down_blocks" / static_cast<int64_t>(i), c_.channels[i == 0 ? 0 : i - 1], c_.channels[i],
                       c_.block(i, block_attention(c_.down_types[i], "Down", config, "down_block_types"), c_.layers[i],
                                c_.transformers[i], i != last));
  if (c_.has_mid) mid_.emplace(scope / "mid_block", c_.channels[last], c_.middle());
}

Told TextUNetEncoder::told(const NamedTensors& inputs, int64_t B, ForwardContext& context) const {
  Told told;
  told.text = inputs.at("encoder_hidden_states");
  if (told.text.rank() != 3 || told.text.dim(0) != B)
    fail("encoder_hidden_states: expected [{}, tokens, {}], found {}", B, c_.context.front(),
         to_string(told.text.shape()));
  told.text_mask = inputs.find("encoder_attention_mask");
  told.time = time_of(inputs, B, told.text, context);
  if (encoder_hid_proj_) told.text = (*encoder_hid_proj_)(told.text, context);
  return told;
}

Tensor TextUNetEncoder::first(const Tensor& sample, ForwardContext& context) const {
  return conv_in_(c_.centres ? sample * 2.0 - 1.0 : sample, context);
}

Tensor TextUNetEncoder::operator()(Tensor x, const Told& told, std::vector<Tensor>& skips,
                                   ForwardContext& context) const {
  skips.push_back(x);
  for (const UNetDownBlock& block : down_) x = block(x, told, skips, context);
  return mid_ ? (*mid_)(x, told, context) : x;
}

void TextUNetEncoder::add_embeddings(const Scope& scope) {
  const Scope classes = scope / "class_embedding";
  const TimeEmbedding::Options options{.activation = c_.activation};
  if (c_.class_type == "table") class_table_.emplace(classes, c_.classes, c_.time_width, 1.0);
  if (c_.class_type == "timestep") class_embedding_.emplace(classes, c_.channels.front(), c_.time_width, options);
  if (c_.class_type == "projection") class_embedding_.emplace(classes, c_.projected_width, c_.time_width);
  if (c_.class_type == "simple_projection")
    class_projection_ = torch_linear(classes, c_.projected_width, c_.time_width);
  if (!c_.addition_type.empty()) add_embedding_.emplace(scope / "add_embedding", c_.projected_width, c_.time_width);
  if (c_.text_width > 0)
    encoder_hid_proj_ = torch_linear(scope / "encoder_hid_proj", c_.text_width, c_.context.front());
}

Tensor TextUNetEncoder::sines(const Tensor& numbers, int64_t width, DType dtype) const {
  return cast(sinusoids(numbers, width, c_.cosines_first, c_.frequency_shift), dtype);
}

// [B, T]: the time, and what is added to it.
Tensor TextUNetEncoder::time_of(const NamedTensors& inputs, int64_t B, const Tensor& text,
                                ForwardContext& context) const {
  Tensor t = reshape(inputs.at("timestep"), {-1});
  if (t.dim(0) != B && t.dim(0) != 1) fail("timestep: expected 1 number or {}, found {}", B, t.dim(0));
  t = broadcast_to(t, {B});
  const DType dtype = text.dtype();
  Tensor time = time_embedding_(sines(t, c_.channels.front(), dtype), inputs.find("timestep_cond"), context);
  if (!c_.class_type.empty()) {
    const Tensor of_class = class_of(inputs.at("class_labels"), dtype, context);
    time = c_.concatenates_class ? concatenate({time, of_class}, 1) : time + of_class;
  }
  if (add_embedding_) {
    const Tensor ids = inputs.at("time_ids");
    const Tensor numbers = reshape(sines(reshape(ids, {-1}), c_.addition_width, dtype), {B, -1});
    time = time + (*add_embedding_)(concatenate({inputs.at("text_embeds"), numbers}, 1), Tensor(), context);
  }
  return c_.time_activation.empty() ? time : activation(c_.time_activation, time);
}

Tensor TextUNetEncoder::class_of(const Tensor& labels, DType dtype, ForwardContext& context) const {
  if (class_table_) return (*class_table_)(labels, context);
  if (class_projection_) return (*class_projection_)(labels, context);
  if (!class_embedding_) return cast(labels, dtype);
  const Tensor given = c_.class_type == "timestep" ? sines(labels, c_.channels.front(), dtype) : labels;
  return (*class_embedding_)(given, Tensor(), context);
}

}  // namespace transom
