// SPDX-License-Identifier: Apache-2.0
// Layers that keep a state of each text instead of keys and values: causal convolutions, selective scans and
// delta rules. Without a cache a text begins with states of zeros. Letters: B rows, T tokens, C channels, K taps, H
// heads, P numbers of a head, S numbers of a state for each, G groups of heads.
#pragma once

#include "transom/layers.h"

namespace transom {

// Values that the weights of a layer begin with are made before anything asks for them: ten times what models have.
inline constexpr int64_t kMostInitialValues = int64_t{1} << 22;

// A convolution of each channel with what stands before it in the text, as torch.nn.Conv1d with as many groups as
// channels has its weights, [C, 1, K]: x [B, T, C] -> [B, T, C] in the type of x, computed in f32.
class CausalConvolution {
 public:
  CausalConvolution(const Scope& scope, int64_t channels, int64_t taps, bool bias);
  // `state`: its number in the context's cache, which holds the last K - 1 inputs.
  Tensor operator()(const Tensor& x, size_t state, ForwardContext& context) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// y_t = h_t c_t of h_t = exp(dt_t a) h_(t - 1) + dt_t x_t b_t: x [B, T, H, P], dt [B, T, H], a [H, S] or [H, 1], b and
// c [B, T, G, S] -> [B, T, H, P], in f32. `state`: its number in the context's cache.
Tensor scan_tokens(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c, size_t state,
                   ForwardContext& context);

// The gated delta rule: v [B, T, H, P], rates and beta [B, T, H], k and q [B, T, G, S] -> [B, T, H, P], in f32.
Tensor delta_tokens(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                    size_t state, ForwardContext& context);

// x [B, T, ...] with zeros where the mask [B, T] hides a token; x itself without a mask. With a cache, of which the
// mask has all places, only the prompt has padding.
Tensor without_padding(const Tensor& x, const Tensor& attention_mask, const ForwardContext& context);

}  // namespace transom
