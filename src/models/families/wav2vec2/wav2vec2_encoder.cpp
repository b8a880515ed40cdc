// SPDX-License-Identifier: Apache-2.0
#include "models/families/wav2vec2/wav2vec2_encoder.h"

#include "base/error.h"
#include "models/shared/relative_buckets.h"

namespace transom {
namespace {

constexpr double kEpsilon = 1e-5;  // of norms that no field sets

// One convolution of the feature extractor: with a norm over the time of each channel, over the channels of each frame,
// or none.
class FeatureLayer {
 public:
  FeatureLayer(const Scope& scope, const Wav2Vec2Config& c, size_t i)
      : path_(scope.path()),
        activation_(c.feat_extract_activation),
        conv_(scope / "conv", i == 0 ? 1 : c.conv_dim[i - 1], c.conv_dim[i], {c.conv_kernel[i]},
              {.strides = {c.conv_stride[i]}, .bias = c.conv_bias}) {
    if (c.feat_extract_norm == "layer") layer_norm_.emplace(scope / "layer_norm", c.conv_dim[i], kEpsilon);
    if (c.feat_extract_norm == "group" && i == 0) {
      group_scale_ = (scope / "layer_norm").parameter("weight", {c.conv_dim[i]}, Initial::ones());
      group_bias_ = (scope / "layer_norm").parameter("bias", {c.conv_dim[i]}, Initial::zeros());
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {  // [B, C, N] -> [B, C', N']
    const ModuleScope module(path_);
    Tensor y = conv_(x, context);
    if (layer_norm_) y = permute((*layer_norm_)(permute(y, {0, 2, 1}), context), {0, 2, 1});
    if (group_scale_) {
      const Shape time{y.dim(2)};
      y = layer_norm(y, full(time, 1, y.dtype()), full(time, 0, y.dtype()), kEpsilon, context.computing);
      y = y * over_channels(group_scale_->value, y) + over_channels(group_bias_->value, y);
    }
    return activation(activation_, y);
  }

 private:
  std::string path_, activation_;
  Convolution conv_;
  std::optional<LayerNorm> layer_norm_;
  std::shared_ptr<Parameter> group_scale_, group_bias_;
};

// A grouped convolution over time, whose weight is a direction and a length for each place of its window (Salimans and
// Kingma, 2016).
class PositionalConvolution {
 public:
  PositionalConvolution(const Scope& scope, const Wav2Vec2Config& c)
      : path_(scope.path()),
        activation_(c.feat_extract_activation),
        window_(c.num_conv_pos_embeddings),
        groups_(c.num_conv_pos_embedding_groups),
        bias_((scope / "conv").parameter("bias", {c.hidden_size}, Initial::zeros())) {
    if (groups_ <= 0 || c.hidden_size % groups_ != 0)
      fail("config.json: hidden_size {} is not divisible by num_conv_pos_embedding_groups {}", c.hidden_size, groups_);
    const Shape shape{c.hidden_size, c.hidden_size / groups_, window_};
    if (c.conv_pos_batch_norm) {
      batch_norm_.emplace(scope / "batch_norm", c.hidden_size);
      direction_ = (scope / "conv").parameter("weight", shape, Initial::normal(c.initializer_range));
    } else {
      const Scope weight = scope / "conv" / "parametrizations" / "weight";
      length_ = weight.parameter("original0", {1, 1, window_}, Initial::ones());
      direction_ = weight.parameter("original1", shape, Initial::normal(c.initializer_range));
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    const ModuleScope module(path_);
    Tensor y = permute(x, {0, 2, 1});
    if (batch_norm_) y = (*batch_norm_)(y, context);
    Tensor weight = direction_->value;
    if (length_) weight = weight * (length_->value * rsqrt(reduce_sum(weight * weight, {0, 1}, true)));
    // An even window would give one frame more.
    const int64_t low = window_ / 2, high = window_ % 2 == 0 ? low - 1 : low;
    y = convolution(y, weight, {.low = {low}, .high = {high}, .groups = groups_}, context.computing);
    return permute(activation(activation_, y + over_channels(bias_->value, y)), {0, 2, 1});
  }

 private:
  std::string path_, activation_;
  int64_t window_, groups_;
  std::shared_ptr<Parameter> length_, direction_, bias_;
  std::optional<BatchNorm> batch_norm_;
};

// A bottleneck at the end of a layer, trained for one language.
class LanguageAdapter {
 public:
  LanguageAdapter(const Scope& scope, const Wav2Vec2Config& c)
      : norm_(scope / "norm", c.hidden_size, kEpsilon),
        linear_1_(scope / "linear_1", c.hidden_size, c.adapter_attn_dim, c.new_weights()),
        linear_2_(scope / "linear_2", c.adapter_attn_dim, c.hidden_size, c.new_weights()) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return linear_2_(relu(linear_1_(norm_(x, context), context)), context);
  }

 private:
  LayerNorm norm_;
  Linear linear_1_, linear_2_;
};

// WavLM's bias on scores: of a table by distance, which all layers share, through gates that each query opens in its
// own layer (Chen et al., 2022, section 3.1).
class GatedPositionBias {
 public:
  GatedPositionBias(const Scope& scope, const Wav2Vec2Config& c)
      : heads_(c.num_attention_heads),
        gates_(scope / "gru_rel_pos_linear", c.hidden_size / heads_, 8, c.new_weights()),
        scale_(scope.parameter("gru_rel_pos_const", {1, heads_, 1, 1}, Initial::ones())) {}

  // x [B, T, D] and the bias by distance [1, H, T, T] -> [B, H, T, T]
  Tensor operator()(const Tensor& x, const Tensor& by_distance, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1);
    const Tensor by_head = permute(reshape(x, {B, T, heads_, -1}), {0, 2, 1, 3});
    const Tensor gates = sigmoid(reduce_sum(reshape(gates_(by_head, context), {B, heads_, T, 2, 4}), {4}));
    const auto gate = [&](int64_t i) { return slice(gates, 3, i, i + 1); };  // [B, H, T, 1]
    const Tensor open = gate(0) * (gate(1) * cast(scale_->value, gates.dtype()) - 1.0) + 2.0;
    return open * by_distance;
  }

 private:
  int64_t heads_;
  Linear gates_;
  std::shared_ptr<Parameter> scale_;
};

class Layer {
 public:
  Layer(const Scope& scope, const Wav2Vec2Config& c, bool first)
      : path_(scope.path()),
        norm_before_(c.do_stable_layer_norm),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        k_proj_(scope / "attention" / "k_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        v_proj_(scope / "attention" / "v_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        q_proj_(scope / "attention" / "q_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        out_proj_(scope / "attention" / "out_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        layer_norm_(scope / "layer_norm", c.hidden_size, c.layer_norm_eps),
        intermediate_dense_(scope / "feed_forward" / "intermediate_dense", c.hidden_size, c.intermediate_size,
                            c.new_weights()),
        output_dense_(scope / "feed_forward" / "output_dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps),
        attention_dropout_(c.attention_dropout),
        activation_dropout_(c.activation_dropout),
        dropout_(c.hidden_dropout),
        layerdrop_(first && c.kind == Wav2Vec2Kind::kWavLM ? 0 : c.layerdrop) {  // WavLM's first makes the bias
    if (c.kind == Wav2Vec2Kind::kWavLM) position_bias_.emplace(scope / "attention", c);
    if (norm_before_ && c.adapter_attn_dim > 0) adapter_layer_.emplace(scope / "adapter_layer", c);
  }

  // [B, T, D] -> [B, T, D]; by_distance as GatedPositionBias takes it, empty where there is none
  Tensor operator()(const Tensor& x, const Tensor& mask, const Tensor& by_distance, ForwardContext& context) const {
    const ModuleScope module(path_);
    const auto attended = [&](const Tensor& y) {
      Tensor bias = mask;
      if (position_bias_) bias = (*position_bias_)(y, by_distance, context);
      if (position_bias_ && mask.defined()) bias = bias + mask;
      return dropout_(out_proj_(multi_head_attention(q_proj_(y, context), k_proj_(y, context), v_proj_(y, context),
                                                     heads_, bias, attention_dropout_, context),
                                context),
                      context);
    };
    const auto fed_forward = [&](const Tensor& y) {
      const Tensor inner = activation_dropout_(activation(activation_, intermediate_dense_(y, context)), context);
      return dropout_(output_dense_(inner, context), context);
    };
    Tensor h;
    if (norm_before_) {
      h = x + attended(layer_norm_(x, context));
      h = h + fed_forward(final_layer_norm_(h, context));
      if (adapter_layer_) h = h + (*adapter_layer_)(h, context);
    } else {
      h = layer_norm_(x + attended(x), context);
      h = final_layer_norm_(h + fed_forward(h), context);
    }
    return layerdrop_(x, h, context);
  }

 private:
  std::string path_;
  bool norm_before_;
  int64_t heads_;
  std::string activation_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
  LayerNorm layer_norm_;
  Linear intermediate_dense_, output_dense_;
  LayerNorm final_layer_norm_;
  std::optional<LanguageAdapter> adapter_layer_;
  std::optional<GatedPositionBias> position_bias_;
  Dropout attention_dropout_, activation_dropout_, dropout_;
  LayerDrop layerdrop_;
};

// As through_layers() calls a layer.
struct LayerBesideBias {
  const Layer& layer;
  const Tensor& by_distance;
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    return layer(x, mask, by_distance, context);
  }
};

// Strided convolutions with gates, which shorten what the encoder gives.
class Adapter {
 public:
  Adapter(const Scope& scope, const Wav2Vec2Config& c) : layerdrop_(c.layerdrop) {
    if (c.output_hidden_size != c.hidden_size) {
      proj_.emplace(scope / "proj", c.hidden_size, c.output_hidden_size, c.new_weights());
      proj_layer_norm_.emplace(scope / "proj_layer_norm", c.output_hidden_size, kEpsilon);
    }
    for (int64_t i = 0; i < c.num_adapter_layers; ++i)
      layers_.emplace_back(scope / "layers" / i / "conv", c.output_hidden_size, 2 * c.output_hidden_size,
                           Axes{c.adapter_kernel_size},
                           Convolution::Options{.strides = {c.adapter_stride}, .low = {1}, .high = {1}});
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {  // [B, T, D] -> [B, T', D']
    if (context.training && layerdrop_ > 0)
      fail("config.json: layerdrop = {} is not carried out in the training of an adapter; only 0 is", layerdrop_);
    Tensor y = permute(proj_ ? (*proj_layer_norm_)((*proj_)(x, context), context) : x, {0, 2, 1});
    for (const Convolution& layer : layers_) {
      const Tensor both = layer(y, context);
      const int64_t half = both.dim(1) / 2;
      y = slice(both, 1, 0, half) * sigmoid(slice(both, 1, half, 2 * half));
    }
    return permute(y, {0, 2, 1});
  }

 private:
  double layerdrop_;
  std::optional<Linear> proj_;
  std::optional<LayerNorm> proj_layer_norm_;
  std::vector<Convolution> layers_;
};

}  // namespace

class Wav2Vec2LayerStack {
 public:
  Wav2Vec2LayerStack(const Scope& scope, const Wav2Vec2Config& config)
      : c(config),
        projection(scope / "feature_projection" / "projection", c.conv_dim.back(), c.hidden_size, c.new_weights()),
        projection_dropout(c.feat_proj_dropout),
        pos_conv_embed(scope / "encoder" / "pos_conv_embed", c),
        layer_norm(scope / "encoder" / "layer_norm", c.hidden_size, c.layer_norm_eps),
        dropout(c.hidden_dropout) {
    for (size_t i = 0; i < c.conv_dim.size(); ++i)
      conv_layers.emplace_back(scope / "feature_extractor" / "conv_layers" / static_cast<int64_t>(i), c, i);
    if (c.feat_proj_layer_norm)
      projection_norm.emplace(scope / "feature_projection" / "layer_norm", c.conv_dim.back(), c.layer_norm_eps);
    if (c.time_masking.probability > 0 || c.feature_masking.probability > 0)
      masked_spec_embed = scope.parameter("masked_spec_embed", {c.hidden_size}, Initial::normal(0.3));
    const Scope blocks = scope / "encoder" / "layers";
    if (c.kind == Wav2Vec2Kind::kWavLM && c.num_hidden_layers > 0)
      distances.emplace(blocks / 0 / "attention" / "rel_attn_embed", c.num_buckets, c.num_attention_heads,
                        c.initializer_range);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(blocks / i, c, i == 0);
    if (c.add_adapter) adapter.emplace(scope / "adapter", c);
  }

  // The frames of `given` are masked (i64 [B, T] or none), in training others at random, and features.
  Tensor augmented(Tensor x, const Tensor& given, const Tensor& frames, ForwardContext& context) const {
    if (!c.apply_spec_augment || (!context.training && !given.defined())) return x;
    const int64_t B = x.dim(0), T = x.dim(1), D = x.dim(2);
    Tensor times;
    if (given.defined()) {
      if (given.shape() != Shape{B, T})
        fail("mask_time_indices: expected [{}, {}], found {}", B, T, to_string(given.shape()));
      if (!masked_spec_embed)
        fail("mask_time_indices: a model without mask_time_prob and mask_feature_prob has no masked_spec_embed");
      times = not_equal(given, zeros({B, T}, DType::kInt64));
    } else {
      times = masked_spans(B, T, c.time_masking, frames, context);
    }
    if (times.defined())
      x = select(broadcast_to(unsqueeze(times, 2), x.shape()),
                 broadcast_to(cast(masked_spec_embed->value, x.dtype()), x.shape()), x);
    if (!context.training) return x;
    if (const Tensor features = masked_spans(B, D, c.feature_masking, {}, context); features.defined())
      x = select(broadcast_to(unsqueeze(features, 1), x.shape()), full(x.shape(), 0, x.dtype()), x);
    return x;
  }

  // Through all layers. WavLM's share the bias by distance.
  EncoderOutput encoded(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    const int64_t T = x.dim(1);
    Tensor by_distance;
    if (distances)
      by_distance =
          bucketed_bias(*distances, {.count = c.num_buckets, .farthest = c.max_bucket_distance, .rounds_sum = true},
                        iota({1, T, T}, 2) - iota({1, T, T}, 1), context);
    std::vector<LayerBesideBias> all;
    for (const Layer& layer : layers) all.push_back({layer, by_distance});
    return through_layers(all, x, mask, context);
  }

  Wav2Vec2Config c;
  std::vector<FeatureLayer> conv_layers;
  std::optional<LayerNorm> projection_norm;
  Linear projection;
  Dropout projection_dropout;
  std::shared_ptr<Parameter> masked_spec_embed;
  PositionalConvolution pos_conv_embed;
  LayerNorm layer_norm;
  Dropout dropout;
  std::optional<Embedding> distances;  // the table of WavLM's bias
  std::vector<Layer> layers;
  std::optional<Adapter> adapter;
};

Wav2Vec2Config::Wav2Vec2Config(const Config& config, Wav2Vec2Kind given)
    : vocab_size(config.get_int("vocab_size", 32)),
      hidden_size(config.get_int("hidden_size", 768)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      num_attention_heads(config.get_int("num_attention_heads", 12)),
      intermediate_size(config.get_int("intermediate_size", 3072)),
      hidden_act(config.get_string("hidden_act", "gelu")),
      feat_extract_norm(config.get_string("feat_extract_norm", "group")),
      feat_extract_activation(config.get_string("feat_extract_activation", "gelu")),
      hidden_dropout(config.get_float("hidden_dropout", 0.1)),
      activation_dropout(config.get_float("activation_dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0.1)),
      feat_proj_dropout(config.get_float("feat_proj_dropout", 0)),
      final_dropout(config.get_float("final_dropout", 0.1)),
      layerdrop(config.get_float("layerdrop", 0.1)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      conv_dim(config.get_ints("conv_dim", {512, 512, 512, 512, 512, 512, 512})),
      conv_stride(config.get_ints("conv_stride", {5, 2, 2, 2, 2, 2, 2})),
      conv_kernel(config.get_ints("conv_kernel", {10, 3, 3, 3, 3, 2, 2})),
      conv_bias(config.get_bool("conv_bias", false)),
      do_stable_layer_norm(config.get_bool("do_stable_layer_norm", false)),
      use_weighted_layer_sum(config.get_bool("use_weighted_layer_sum", false)),
      num_conv_pos_embeddings(config.get_int("num_conv_pos_embeddings", 128)),
      num_conv_pos_embedding_groups(config.get_int("num_conv_pos_embedding_groups", 16)),
      classifier_proj_size(config.get_int("classifier_proj_size", 256)),
      num_labels(number_of_labels(config)),
      kind(given),
      time_masking{config.get_float("mask_time_prob", 0.05), config.get_int("mask_time_length", 10),
                   config.get_int("mask_time_min_masks", 2)},
      feature_masking{config.get_float("mask_feature_prob", 0), config.get_int("mask_feature_length", 10),
                      config.get_int("mask_feature_min_masks", 0)},
      apply_spec_augment(config.get_bool("apply_spec_augment", true)),
      ctc{config.get_int("pad_token_id", 0),
          config.get_string("ctc_loss_reduction", given == Wav2Vec2Kind::kWavLM ? "mean" : "sum"),
          config.get_bool("ctc_zero_infinity", false)},
      adapter_attn_dim(config.get_int("adapter_attn_dim", 0)),
      adapter_kernel_size(config.get_int("adapter_kernel_size", 3)),
      adapter_stride(config.get_int("adapter_stride", 2)),
      num_adapter_layers(config.get_int("num_adapter_layers", 3)),
      output_hidden_size(config.get_int("output_hidden_size", hidden_size)) {
  if (kind == Wav2Vec2Kind::kHubert) {
    feat_proj_layer_norm = config.get_bool("feat_proj_layer_norm", true);
    conv_pos_batch_norm = config.get_bool("conv_pos_batch_norm", false);
  } else {
    add_adapter = config.get_bool("add_adapter", false);
  }
  if (!add_adapter) output_hidden_size = hidden_size;
  if (kind == Wav2Vec2Kind::kWavLM) {
    num_buckets = config.get_int("num_buckets", 320), max_bucket_distance = config.get_int("max_bucket_distance", 800);
    if (num_buckets < 4 || num_buckets > 1 << 20 || max_bucket_distance <= num_buckets / 4 ||
        max_bucket_distance > 1 << 20)
      fail("config.json: num_buckets {}: expected 4 or more, and max_bucket_distance above a quarter of it, found {}",
           num_buckets, max_bucket_distance);
  }
  if (feat_extract_norm != "group" && feat_extract_norm != "layer")
    fail("config.json: feat_extract_norm: expected group or layer, found {}", quoted(feat_extract_norm));
  if (conv_dim.empty() || conv_dim.size() != conv_stride.size() || conv_dim.size() != conv_kernel.size())
    fail("config.json: conv_dim, conv_stride and conv_kernel: expected one number a layer in each, found {}, {} and {}",
         conv_dim.size(), conv_stride.size(), conv_kernel.size());
  for (const auto* numbers : {&conv_dim, &conv_stride, &conv_kernel})
    for (const int64_t number : *numbers)
      if (number < 1)
        fail("config.json: conv_dim, conv_stride, conv_kernel: expected numbers from 1, found {}", number);
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  if (num_conv_pos_embeddings < 1 || adapter_kernel_size < 1 || adapter_stride < 1)
    fail("config.json: num_conv_pos_embeddings, adapter_kernel_size and adapter_stride must be positive");
}

Wav2Vec2Encoder::Wav2Vec2Encoder(const Scope& scope, const Wav2Vec2Config& config)
    : stack_(std::make_shared<const Wav2Vec2LayerStack>(scope, config)) {}

Tensor Wav2Vec2Encoder::frames_of(Tensor samples, bool adapted) const {
  const Wav2Vec2Config& c = stack_->c;
  const auto through = [&](int64_t window, int64_t stride) {
    const Tensor places =
        maximum(samples - static_cast<double>(window - stride), zeros(samples.shape(), DType::kInt64));
    samples = places / static_cast<double>(stride);  // of whole numbers: rounded down
  };
  for (size_t i = 0; i < c.conv_kernel.size(); ++i) through(c.conv_kernel[i], c.conv_stride[i]);
  for (int64_t i = 0; adapted && c.add_adapter && i < c.num_adapter_layers; ++i) through(1, c.adapter_stride);
  return samples;
}

Tensor Wav2Vec2Encoder::frame_mask(const Tensor& attention_mask, int64_t frames) const {
  const Tensor counted = frames_of(reduce_sum(cast(attention_mask, DType::kInt64), {1}), false);
  const Shape shape{attention_mask.dim(0), frames};
  return less(iota(shape, 1), broadcast_to(unsqueeze(counted, 1), shape));
}

Wav2Vec2Output Wav2Vec2Encoder::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Wav2Vec2LayerStack& s = *stack_;
  const Tensor& wave = inputs.at("input_values");
  if (wave.rank() != 2) fail("input_values: expected [batch, samples], found {}", to_string(wave.shape()));
  int64_t needed = 1;  // samples for one frame
  for (size_t i = s.c.conv_kernel.size(); i-- > 0;) needed = (needed - 1) * s.c.conv_stride[i] + s.c.conv_kernel[i];
  if (wave.dim(1) < needed)
    fail("input_values: expected at least {} samples, the model's window, found {}; pad the sound", needed,
         wave.dim(1));
  const Tensor attention_mask = inputs.find("attention_mask");
  if (attention_mask.defined() && attention_mask.shape() != wave.shape())
    fail("attention_mask: expected {}, found {}", to_string(wave.shape()), to_string(attention_mask.shape()));

  Wav2Vec2Output output;
  Tensor x = unsqueeze(wave, 1);
  for (const FeatureLayer& layer : s.conv_layers) x = layer(x, context);
  x = permute(x, {0, 2, 1});  // [B, T, C]
  if (s.projection_norm) x = (*s.projection_norm)(x, context);
  output.extract_features = x;
  x = s.projection_dropout(s.projection(x, context), context);

  Tensor mask, frames;
  if (attention_mask.defined()) {
    frames = frames_of(reduce_sum(cast(attention_mask, DType::kInt64), {1}), false);
    mask = frame_mask(attention_mask, x.dim(1));
  }
  Tensor masked = inputs.find("mask_time_indices");
  if (masked.defined()) masked = cast(masked, DType::kInt64);
  x = s.augmented(x, masked, frames, context);
  if (mask.defined()) x = select(broadcast_to(unsqueeze(mask, 2), x.shape()), x, full(x.shape(), 0, x.dtype()));
  x = x + s.pos_conv_embed(x, context);
  if (!s.c.do_stable_layer_norm) x = s.layer_norm(x, context);
  x = s.dropout(x, context);
  const Tensor visible = mask.defined() ? additive_mask(cast(mask, DType::kFloat32)) : Tensor();
  const EncoderOutput encoded = s.encoded(x, visible, context);
  output.hidden_states = encoded.hidden_states;
  output.last_hidden_state =
      s.c.do_stable_layer_norm ? s.layer_norm(encoded.last_hidden_state, context) : encoded.last_hidden_state;
  if (s.adapter) output.last_hidden_state = (*s.adapter)(output.last_hidden_state, context);
  return output;
}

}  // namespace transom
