// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "models/families/sam/sam_parts.h"
#include "models/nn/attention/attention.h"

namespace transom {

// Attention of heads that are narrower than what they read, all tokens to all.
class SamAttention {
 public:
  SamAttention(const Scope& scope, const SamDecoderConfig& c, const Linear::Options& weights, int64_t rate)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        q_proj_(scope / "q_proj", c.hidden_size, c.hidden_size / rate, weights),
        k_proj_(scope / "k_proj", c.hidden_size, c.hidden_size / rate, weights),
        v_proj_(scope / "v_proj", c.hidden_size, c.hidden_size / rate, weights),
        out_proj_(scope / "out_proj", c.hidden_size / rate, c.hidden_size, weights) {}

  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      attended = multi_head_attention(q_proj_(query, context), k_proj_(key, context), v_proj_(value, context), heads_,
                                      Tensor(), Dropout(0), context);
    }
    return out_proj_(attended, context);
  }

 private:
  std::string path_;
  int64_t heads_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
};

// How much narrower attention between the two sides is. In Transformers attention_downsample_rate is of the attention
// behind the layers alone.
constexpr int64_t kSamCrossRate = 2;

// Tokens look at each other and at the places of the picture, then these at the tokens.
class SamTwoWayLayer {
 public:
  SamTwoWayLayer(const Scope& scope, const SamDecoderConfig& c, const Linear::Options& weights, bool is_first)
      : is_first_(is_first),
        self_attn_(scope / "self_attn", c, weights, 1),
        layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
        to_image_(scope / "cross_attn_token_to_image", c, weights, kSamCrossRate),
        layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
        mlp_(scope / "mlp", c.hidden_size, c.mlp_dim, c.hidden_act, weights.deviation),
        layer_norm3_(scope / "layer_norm3", c.hidden_size, c.layer_norm_eps),
        layer_norm4_(scope / "layer_norm4", c.hidden_size, c.layer_norm_eps),
        to_tokens_(scope / "cross_attn_image_to_token", c, weights, kSamCrossRate) {}

  struct Sides {
    Tensor tokens, places;  // [B N, T, C], [B N, h w, C]
  };
  // `first` are the tokens that the first layer read, which stand for their positions.
  Sides operator()(Sides x, const Tensor& first, const Tensor& positions, ForwardContext& context) const {
    const Tensor query = is_first_ ? x.tokens : x.tokens + first;
    const Tensor attended = self_attn_(query, query, x.tokens, context);
    x.tokens = layer_norm1_(is_first_ ? attended : x.tokens + attended, context);
    const Tensor places = x.places + positions;
    x.tokens = layer_norm2_(x.tokens + to_image_(x.tokens + first, places, x.places, context), context);
    x.tokens = layer_norm3_(x.tokens + mlp_(x.tokens, context), context);
    x.places = layer_norm4_(x.places + to_tokens_(places, x.tokens + first, x.tokens, context), context);
    return x;
  }

 private:
  bool is_first_;
  SamAttention self_attn_;
  LayerNorm layer_norm1_;
  SamAttention to_image_;
  LayerNorm layer_norm2_;
  SamMlp mlp_;
  LayerNorm layer_norm3_, layer_norm4_;
  SamAttention to_tokens_;
};

// Layers with ReLU between them, of which the first and the last have names of their own.
class SamMaskDecoder::Perceptron {
 public:
  Perceptron(const Scope& scope, int64_t in, int64_t inner, int64_t out, int64_t depth,
             const Linear::Options& weights) {
    layers_.emplace_back(scope / "proj_in", in, inner, weights);
    for (int64_t i = 0; i + 2 < depth; ++i) layers_.emplace_back(scope / "layers" / i, inner, inner, weights);
    layers_.emplace_back(scope / "proj_out", inner, out, weights);
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i](i > 0 ? relu(x) : x, context);
    return x;
  }

 private:
  std::vector<Linear> layers_;
};

SamMaskDecoder::SamMaskDecoder(const Scope& scope, const SamConfig& all)
    : c_(all.decoder),
      iou_token_((scope / "iou_token").parameter("weight", {1, c_.hidden_size}, Initial::normal(1))),
      mask_tokens_((scope / "mask_tokens")
                       .parameter("weight", {c_.num_multimask_outputs + 1, c_.hidden_size}, Initial::normal(1))),
      final_attention_(std::make_unique<SamAttention>(scope / "transformer" / "final_attn_token_to_image", c_,
                                                      all.new_weights(), c_.attention_downsample_rate)),
      final_norm_(scope / "transformer" / "layer_norm_final_attn", c_.hidden_size, 1e-5),
      upscale_conv1_(scope / "upscale_conv1", c_.hidden_size, c_.hidden_size / 4, 2, 0.02),
      upscale_conv2_(scope / "upscale_conv2", c_.hidden_size / 4, c_.hidden_size / 8, 2, 0.02),
      upscale_norm_(scope / "upscale_layer_norm", c_.hidden_size / 4, 1e-6),
      iou_head_(std::make_unique<Perceptron>(scope / "iou_prediction_head", c_.hidden_size, c_.iou_head_hidden_dim,
                                             c_.num_multimask_outputs + 1, c_.iou_head_depth, all.new_weights())) {
  for (int64_t i = 0; i < c_.num_hidden_layers; ++i)
    layers_.emplace_back(scope / "transformer" / "layers" / i, c_, all.new_weights(), i == 0);
  for (int64_t i = 0; i <= c_.num_multimask_outputs; ++i)
    hypernetworks_.emplace_back(scope / "output_hypernetworks_mlps" / i, c_.hidden_size, c_.hidden_size,
                                c_.hidden_size / 8, 3, all.new_weights());
}

SamMaskDecoder::~SamMaskDecoder() = default;

SamMaskDecoder::Masks SamMaskDecoder::operator()(const Tensor& picture, const Tensor& positions, const Tensor& prompts,
                                                 ForwardContext& context) const {
  const int64_t B = picture.dim(0), C = picture.dim(1), h = picture.dim(2), w = picture.dim(3);
  if (prompts.defined() && prompts.dim(0) != B)
    fail("input_points and input_boxes: expected those of {} pictures, found those of {}", B, prompts.dim(0));
  const int64_t N = prompts.defined() ? prompts.dim(1) : 1, outputs = c_.num_multimask_outputs;
  Tensor tokens = concatenate({iou_token_->value, mask_tokens_->value}, 0);
  tokens = broadcast_to(reshape(tokens, {1, 1, outputs + 2, C}), {B, N, outputs + 2, C});
  if (prompts.defined()) tokens = concatenate({tokens, cast(prompts, tokens.dtype())}, 2);
  const Tensor first = reshape(tokens, {B * N, tokens.dim(2), C});
  const Tensor places = reshape(permute(picture, {0, 2, 3, 1}), {B, 1, h * w, C});
  SamTwoWayLayer::Sides x{first, reshape(broadcast_to(places, {B, N, h * w, C}), {B * N, h * w, C})};
  for (const SamTwoWayLayer& layer : layers_) x = layer(std::move(x), first, positions, context);
  x.tokens =
      final_norm_(x.tokens + (*final_attention_)(x.tokens + first, x.places + positions, x.places, context), context);

  const auto token = [&](int64_t i) { return squeeze(slice(x.tokens, 1, i, i + 1), 1); };  // [B N, C]
  Tensor map = permute(reshape(x.places, {B * N, h, w, C}), {0, 3, 1, 2});
  map = gelu(norm_of_channels(upscale_norm_, upscale_conv1_(map, context), context));
  map = gelu(upscale_conv2_(map, context));  // [B N, C / 8, 4 h, 4 w]
  // The first mask is for who wants a single one.
  std::vector<Tensor> wanted;
  for (int64_t i = 1; i <= outputs; ++i)
    wanted.push_back(hypernetworks_[static_cast<size_t>(i)](token(1 + i), context));
  const Tensor masks = dot_general(stack(wanted, 1), map, {{0}, {0}, {2}, {1}}, context.computing);
  const Tensor scores = slice((*iou_head_)(token(0), context), 1, 1, outputs + 1);
  return {reshape(masks, {B, N, outputs, 4 * h, 4 * w}), reshape(scores, {B, N, outputs})};
}

}  // namespace transom
