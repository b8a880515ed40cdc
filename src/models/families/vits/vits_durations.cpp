// SPDX-License-Identifier: Apache-2.0
// How long each token is said: predicted, or drawn by a flow of splines (Durkan et al., "Neural Spline Flows", 2019),
// which is gone through backwards.
#include <cmath>
#include <optional>

#include "models/families/vits/vits_parts.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr double kVitsEpsilon = 1e-5, kLeastBin = 1e-3, kLeastSlope = 1e-3;

// Convolutions of single channels that look ever further.
class VitsSeparable {
 public:
  VitsSeparable(const Scope& scope, const VitsConfig& c) {
    int64_t dilation = 1;
    for (int64_t i = 0; i < c.duration_layers; ++i, dilation *= c.duration_kernel) {
      dilated_.push_back(same_length_convolution(scope / "convs_dilated" / i, c.hidden_size, c.hidden_size,
                                                 c.duration_kernel, dilation, c.hidden_size));
      pointwise_.push_back(same_length_convolution(scope / "convs_pointwise" / i, c.hidden_size, c.hidden_size, 1));
      norms_1_.emplace_back(scope / "norms_1" / i, c.hidden_size, kVitsEpsilon);
      norms_2_.emplace_back(scope / "norms_2" / i, c.hidden_size, kVitsEpsilon);
    }
  }
  Tensor operator()(Tensor x, const Tensor& counted, const Tensor& told, const ForwardContext& context) const {
    if (told.defined()) x = x + told;
    for (size_t i = 0; i < dilated_.size(); ++i) {
      const Tensor y = gelu(norms_1_[i](dilated_[i](x * counted, context), context));
      x = x + gelu(norms_2_[i](pointwise_[i](y, context), context));
    }
    return x * counted;
  }

 private:
  std::vector<Convolution> dilated_, pointwise_;
  std::vector<VitsChannelNorm> norms_1_, norms_2_;
};

// Of each place the edges of its bins, from -bound to bound: widths [..., N] before the softmax -> [..., N + 1].
Tensor edges_of(const Tensor& widths, double bound, const Computing& computing) {
  const int64_t N = widths.dim(-1), axis = widths.rank() - 1;
  const Tensor parts = softmax(widths, computing) * (1 - kLeastBin * static_cast<double>(N)) + kLeastBin;
  const Tensor inner = slice(cumulative_sum(parts, axis), axis, 0, N - 1) * (2 * bound) - bound;
  Shape one = widths.shape();
  one.back() = 1;
  return concatenate({full(one, -bound, widths.dtype()), inner, full(one, bound, widths.dtype())}, axis);
}

// The inverse of a rising curve of rational quadratics, of x within the bounds; outside x stays. x [B, T], others
// [B, T, N] and slopes [B, T, N - 1] inside.
Tensor spline_backwards(const Tensor& x, const Tensor& widths, const Tensor& heights, const Tensor& slopes,
                        double bound, const Computing& computing) {
  const int64_t N = widths.dim(-1);
  const Tensor across = edges_of(widths, bound, computing), up = edges_of(heights, bound, computing);
  Shape one = slopes.shape();
  one.back() = 1;
  const Tensor ends = full(one, 1, slopes.dtype());  // at the bounds the curve goes on as a straight line
  const Tensor slope = concatenate({ends, softplus(slopes) + kLeastSlope, ends}, 2);
  // Which bin x lies in, as ones and zeros [B, T, N].
  const Tensor place = unsqueeze(minimum(maximum(x, constant(-bound, x.dtype())), constant(bound, x.dtype())), 2);
  const auto from = [&](const Tensor& edges) { return slice(edges, 2, 0, N); };
  const auto to = [&](const Tensor& edges) { return slice(edges, 2, 1, N + 1); };
  const Tensor reached = cast(greater_equal(broadcast_to(place, from(up).shape()), from(up)), x.dtype());
  const Tensor passed = concatenate({slice(reached, 2, 1, N), full(one, 0, x.dtype())}, 2);
  const Tensor chosen = reached - passed;
  const auto pick = [&](const Tensor& of_bins) { return reduce_sum(of_bins * chosen, {2}); };
  const Tensor left = pick(from(across)), width = pick(to(across) - from(across)), low = pick(from(up)),
               height = pick(to(up) - from(up)), d0 = pick(from(slope)), d1 = pick(to(slope));
  const Tensor steep = height / width, above = squeeze(place, 2) - low, bend = above * (d0 + d1 - steep * 2.0);
  const Tensor a = height * (steep - d0) + bend, b = height * d0 - bend, c = -(steep * above);
  const Tensor root = (c * 2.0) / (-b - sqrt(maximum(b * b - a * c * 4.0, constant(0, x.dtype()))));
  const Tensor inside = logical_and(greater_equal(x, full(x.shape(), -bound, x.dtype())),
                                    greater_equal(full(x.shape(), bound, x.dtype()), x));
  return select(inside, root * width + left, x);
}

class VitsSplineFlow {
 public:
  VitsSplineFlow(const Scope& scope, const VitsConfig& c)
      : bins_(c.duration_bins),
        bound_(c.tail_bound),
        scale_(1 / std::sqrt(static_cast<double>(c.hidden_size))),
        conv_pre_(same_length_convolution(scope / "conv_pre", 1, c.hidden_size, 1)),
        conv_dds_(scope / "conv_dds", c),
        conv_proj_(same_length_convolution(scope / "conv_proj", c.hidden_size, 3 * c.duration_bins - 1, 1)) {}
  Tensor backwards(const Tensor& x, const Tensor& counted, const Tensor& told, const ForwardContext& context) const {
    const Tensor first = slice(x, 1, 0, 1);
    const Tensor hidden = conv_dds_(conv_pre_(first, context), counted, told, context);
    // [B, T, 3 N - 1], and the spline in f32, whatever the weights are of.
    const Tensor curve = cast(permute(conv_proj_(hidden, context) * counted, {0, 2, 1}), DType::kFloat32);
    const Tensor second =
        cast(spline_backwards(cast(squeeze(slice(x, 1, 1, 2), 1), DType::kFloat32), slice(curve, 2, 0, bins_) * scale_,
                              slice(curve, 2, bins_, 2 * bins_) * scale_, slice(curve, 2, 2 * bins_, 3 * bins_ - 1),
                              bound_, context.computing),
             x.dtype());
    return concatenate({first, unsqueeze(second, 1)}, 1) * counted;
  }

 private:
  int64_t bins_;
  double bound_, scale_;
  Convolution conv_pre_;
  VitsSeparable conv_dds_;
  Convolution conv_proj_;
};

struct VitsAffine {
  explicit VitsAffine(const Scope& scope)
      : translate(scope.parameter("translate", {2, 1}, Initial::zeros())),
        log_scale(scope.parameter("log_scale", {2, 1}, Initial::zeros())) {}
  std::shared_ptr<Parameter> translate, log_scale;
};

}  // namespace

class VitsDurationNet {
 public:
  virtual ~VitsDurationNet() = default;
  virtual Tensor operator()(const Tensor& hidden, const Tensor& counted, const Tensor& speaker, const Tensor& noise,
                            ForwardContext& context) const = 0;
};

namespace {

class VitsPredictedDurations : public VitsDurationNet {
 public:
  VitsPredictedDurations(const Scope& scope, const VitsConfig& c)
      : conv_1_(same_length_convolution(scope / "conv_1", c.hidden_size, c.duration_channels, c.duration_kernel)),
        norm_1_(scope / "norm_1", c.duration_channels, c.layer_norm_eps),
        conv_2_(same_length_convolution(scope / "conv_2", c.duration_channels, c.duration_channels, c.duration_kernel)),
        norm_2_(scope / "norm_2", c.duration_channels, c.layer_norm_eps),
        proj_(same_length_convolution(scope / "proj", c.duration_channels, 1, 1)) {
    if (c.speaker_embedding_size > 0)
      cond_.emplace(same_length_convolution(scope / "cond", c.speaker_embedding_size, c.hidden_size, 1));
  }
  Tensor operator()(const Tensor& hidden, const Tensor& counted, const Tensor& speaker, const Tensor& /*noise*/,
                    ForwardContext& context) const override {
    Tensor x = speaker.defined() && cond_ ? hidden + (*cond_)(speaker, context) : hidden;
    x = norm_1_(relu(conv_1_(x * counted, context)), context);
    x = norm_2_(relu(conv_2_(x * counted, context)), context);
    return proj_(x * counted, context) * counted;
  }

 private:
  Convolution conv_1_;
  VitsChannelNorm norm_1_;
  Convolution conv_2_;
  VitsChannelNorm norm_2_;
  Convolution proj_;
  std::optional<Convolution> cond_;
};

class VitsDrawnDurations : public VitsDurationNet {
 public:
  VitsDrawnDurations(const Scope& scope, const VitsConfig& c)
      : conv_pre_(same_length_convolution(scope / "conv_pre", c.hidden_size, c.hidden_size, 1)),
        conv_proj_(same_length_convolution(scope / "conv_proj", c.hidden_size, c.hidden_size, 1)),
        conv_dds_(scope / "conv_dds", c),
        affine_(scope / "flows" / 0),
        post_conv_pre_(same_length_convolution(scope / "post_conv_pre", 1, c.hidden_size, 1)),
        post_conv_proj_(same_length_convolution(scope / "post_conv_proj", c.hidden_size, c.hidden_size, 1)),
        post_conv_dds_(scope / "post_conv_dds", c),
        post_affine_(scope / "post_flows" / 0) {
    if (c.speaker_embedding_size > 0)
      cond_.emplace(same_length_convolution(scope / "cond", c.speaker_embedding_size, c.hidden_size, 1));
    for (int64_t i = 1; i <= c.duration_flows; ++i) {
      flows_.emplace_back(scope / "flows" / i, c);
      post_flows_.emplace_back(scope / "post_flows" / i, c);
    }
  }
  Tensor operator()(const Tensor& hidden, const Tensor& counted, const Tensor& speaker, const Tensor& noise,
                    ForwardContext& context) const override {
    Tensor told = conv_pre_(hidden, context);
    if (speaker.defined() && cond_) told = told + (*cond_)(speaker, context);
    told = conv_proj_(conv_dds_(told, counted, {}, context), context) * counted;
    Tensor x = noise;
    // Backwards, without the first of the splines, whose half is not used.
    for (size_t i = flows_.size(); i-- > 1;) x = flows_[i].backwards(reverse(x, {1}), counted, told, context);
    x = (reverse(x, {1}) - affine_.translate->value) * exp(-affine_.log_scale->value) * counted;
    return slice(x, 1, 0, 1);
  }

 private:
  Convolution conv_pre_, conv_proj_;
  VitsSeparable conv_dds_;
  std::optional<Convolution> cond_;
  VitsAffine affine_;
  std::vector<VitsSplineFlow> flows_;
  // Of training alone.
  Convolution post_conv_pre_, post_conv_proj_;
  VitsSeparable post_conv_dds_;
  VitsAffine post_affine_;
  std::vector<VitsSplineFlow> post_flows_;
};

}  // namespace

VitsDurations::VitsDurations(const Scope& scope, const VitsConfig& c) {
  if (c.stochastic_durations) net_ = std::make_shared<VitsDrawnDurations>(scope, c);
  else net_ = std::make_shared<VitsPredictedDurations>(scope, c);
}

Tensor VitsDurations::operator()(const Tensor& hidden, const Tensor& counted, const Tensor& speaker,
                                 const Tensor& noise, ForwardContext& context) const {
  return (*net_)(hidden, counted, speaker, noise, context);
}

}  // namespace transom
