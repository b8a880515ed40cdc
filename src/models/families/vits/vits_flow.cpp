// SPDX-License-Identifier: Apache-2.0
// The flow, and what hears sounds in training.
#include <optional>

#include "models/families/vits/vits_parts.h"
#include "models/nn/vision/convolution.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A convolution whose weight is a direction and a length for each channel (Salimans and Kingma, 2016).
class VitsNormedConvolution {
 public:
  VitsNormedConvolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t dilation)
      : dilation_(dilation), window_(window), bias_(scope.parameter("bias", {out}, Initial::zeros())) {
    const Scope weight = scope / "parametrizations" / "weight";
    length_ = weight.parameter("original0", {out, 1, 1}, Initial::ones());
    direction_ = weight.parameter("original1", {out, in, window}, Initial::normal(0.02));
  }
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    const Tensor& direction = direction_->value;
    const Tensor weight = direction * (length_->value * rsqrt(reduce_sum(direction * direction, {1, 2}, true)));
    const int64_t beside = (window_ - 1) * dilation_ / 2;
    const Tensor y =
        convolution(x, weight, {.low = {beside}, .high = {beside}, .dilations = {dilation_}}, context.computing);
    return y + over_channels(cast(bias_->value, y.dtype()), y);
  }

 private:
  int64_t dilation_, window_;
  std::shared_ptr<Parameter> bias_, length_, direction_;
};

// Gated convolutions, each of which sees further (van den Oord et al., 2016).
class VitsWaveNet {
 public:
  VitsWaveNet(const Scope& scope, const VitsConfig& c, int64_t layers) : width_(c.hidden_size) {
    if (c.speaker_embedding_size > 0)
      cond_.emplace(scope / "cond_layer", c.speaker_embedding_size, 2 * width_ * layers, 1, 1);
    int64_t dilation = 1;
    for (int64_t i = 0; i < layers; ++i, dilation *= c.wavenet_dilation) {
      in_.emplace_back(scope / "in_layers" / i, width_, 2 * width_, c.wavenet_kernel, dilation);
      out_.emplace_back(scope / "res_skip_layers" / i, width_, i + 1 < layers ? 2 * width_ : width_, 1, 1);
    }
  }
  Tensor operator()(Tensor x, const Tensor& counted, const Tensor& speaker, const ForwardContext& context) const {
    const Tensor told = speaker.defined() && cond_ ? (*cond_)(speaker, context) : Tensor();
    Tensor sum;
    for (size_t i = 0; i < in_.size(); ++i) {
      Tensor h = in_[i](x, context);
      const auto first = static_cast<int64_t>(i) * 2 * width_;
      if (told.defined()) h = h + slice(told, 1, first, first + 2 * width_);
      const Tensor both = out_[i](tanh(slice(h, 1, 0, width_)) * sigmoid(slice(h, 1, width_, 2 * width_)), context);
      const bool last = i + 1 == in_.size();
      if (!last) x = (x + slice(both, 1, 0, width_)) * counted;
      const Tensor skipped = last ? both : slice(both, 1, width_, 2 * width_);
      sum = sum.defined() ? sum + skipped : skipped;
    }
    return sum * counted;
  }

 private:
  int64_t width_;
  std::optional<VitsNormedConvolution> cond_;
  std::vector<VitsNormedConvolution> in_, out_;
};

}  // namespace

class VitsCoupling {
 public:
  VitsCoupling(const Scope& scope, const VitsConfig& c)
      : half_(c.flow_size / 2),
        conv_pre_(same_length_convolution(scope / "conv_pre", half_, c.hidden_size, 1)),
        wavenet_(scope / "wavenet", c, c.wavenet_layers),
        conv_post_(same_length_convolution(scope / "conv_post", c.hidden_size, half_, 1)) {}
  Tensor backwards(const Tensor& x, const Tensor& counted, const Tensor& speaker, const ForwardContext& context) const {
    const Tensor first = slice(x, 1, 0, half_), second = slice(x, 1, half_, 2 * half_);
    const Tensor hidden = wavenet_(conv_pre_(first, context) * counted, counted, speaker, context);
    return concatenate({first, (second - conv_post_(hidden, context) * counted) * counted}, 1);
  }

 private:
  int64_t half_;
  Convolution conv_pre_;
  VitsWaveNet wavenet_;
  Convolution conv_post_;
};

VitsFlow::VitsFlow(const Scope& scope, const VitsConfig& c) {
  for (int64_t i = 0; i < c.prior_flows; ++i) flows_.push_back(std::make_shared<VitsCoupling>(scope / "flows" / i, c));
}

Tensor VitsFlow::backwards(Tensor x, const Tensor& counted, const Tensor& speaker, ForwardContext& context) const {
  for (size_t i = flows_.size(); i-- > 0;) x = flows_[i]->backwards(reverse(x, {1}), counted, speaker, context);
  return x;
}

class VitsPosteriorNet {
 public:
  VitsPosteriorNet(const Scope& scope, const VitsConfig& c)
      : conv_pre_(same_length_convolution(scope / "conv_pre", c.spectrogram_bins, c.hidden_size, 1)),
        wavenet_(scope / "wavenet", c, c.posterior_layers),
        conv_proj_(same_length_convolution(scope / "conv_proj", c.hidden_size, 2 * c.flow_size, 1)) {}

 private:
  Convolution conv_pre_;
  VitsWaveNet wavenet_;
  Convolution conv_proj_;
};

VitsPosterior::VitsPosterior(const Scope& scope, const VitsConfig& c)
    : net_(std::make_shared<VitsPosteriorNet>(scope, c)) {}

}  // namespace transom
