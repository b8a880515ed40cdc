// SPDX-License-Identifier: Apache-2.0
#include "models/nn/recurrence/state_layers.h"

#include <cmath>

#include "base/error.h"
#include "graph/ops/recurrence/recurrence.h"
#include "models/nn/attention/cache.h"

namespace transom {
namespace {

Tensor in_floats(const Tensor& x) { return cast(x, DType::kFloat32); }

// Without the axis of rows, of which a pass over texts in pages has one.
Tensor of_one_row(const Tensor& x) {
  if (x.dim(0) != 1) fail(ErrorKind::kInternal, "tokens in pages: expected one row, found {}", to_string(x.shape()));
  return squeeze(x, 0);
}

// What a text begins with in a pass over rows of tokens.
Tensor state_of_rows(const Type& one, size_t number, int64_t rows, const ForwardContext& context) {
  if (context.cache && !context.cache->has_state_pools())
    if (const Tensor state = context.cache->state(number); state.defined()) return state;
  Shape shape = one.shape;
  shape.insert(shape.begin(), rows);
  return zeros(shape, one.dtype);
}

// The pool of the states in a pass over texts in pages; none in other passes.
StatePlaces pages_of(const Type& one, size_t number, const ForwardContext& context) {
  if (!context.cache || !context.cache->has_state_pools()) return {};
  return context.cache->state_places(number, one);
}

void keep_state(const Tensor& state, size_t number, const ForwardContext& context) {
  if (context.cache && !context.cache->has_state_pools()) context.cache->set_state(number, state);
}

}  // namespace

CausalConvolution::CausalConvolution(const Scope& scope, int64_t channels, int64_t taps, bool bias)
    : path_(scope.path()) {
  if (channels < 1 || taps < 2)
    fail("config.json: a convolution of {} channels over {} tokens: expected at least 1 and 2", channels, taps);
  // As torch.nn.Conv1d begins: uniform up to 1 / sqrt(K).
  weight_ =
      scope.parameter("weight", {channels, 1, taps}, Initial::normal(1 / std::sqrt(3 * static_cast<double>(taps))));
  if (bias) bias_ = scope.parameter("bias", {channels}, Initial::zeros());
}

Tensor CausalConvolution::operator()(const Tensor& x, size_t state, ForwardContext& context) const {
  const ModuleScope module(path_);
  const int64_t T = x.dim(1), C = x.dim(2), K = weight_->value.dim(2);
  const Tensor weight = in_floats(reshape(weight_->value, {C, K})), wide = in_floats(x);
  const Type one{DType::kFloat32, {K - 1, C}};
  Tensor y;
  if (const StatePlaces pages = pages_of(one, state, context); pages.pool.defined()) {
    const Scanned made = paged_convolution(of_one_row(wide), weight, pages);
    context.cache->set_state_pool(state, made.state);
    y = unsqueeze(made.y, 0);
  } else {
    const Tensor seen = concatenate({state_of_rows(one, state, x.dim(0), context), wide}, 1);  // [B, K - 1 + T, C]
    keep_state(slice(seen, 1, T, T + K - 1), state, context);
    for (int64_t k = 0; k < K; ++k) {
      const Tensor term = slice(seen, 1, k, k + T) * squeeze(slice(weight, 1, k, k + 1), 1);
      y = k == 0 ? term : y + term;
    }
  }
  if (bias_) y = y + in_floats(bias_->value);
  return cast(y, x.dtype());
}

Tensor scan_tokens(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c, size_t state,
                   ForwardContext& context) {
  const Tensor wide = in_floats(x), step = in_floats(dt), rates = in_floats(a), in = in_floats(b), out = in_floats(c);
  const Type one{DType::kFloat32, {x.dim(2), x.dim(3), b.dim(3)}};
  if (const StatePlaces pages = pages_of(one, state, context); pages.pool.defined()) {
    const Scanned made =
        paged_selective_scan(of_one_row(wide), of_one_row(step), rates, of_one_row(in), of_one_row(out), pages);
    context.cache->set_state_pool(state, made.state);
    return unsqueeze(made.y, 0);
  }
  const Scanned made = selective_scan(wide, step, rates, in, out, state_of_rows(one, state, x.dim(0), context));
  keep_state(made.state, state, context);
  return made.y;
}

Tensor delta_tokens(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                    size_t state, ForwardContext& context) {
  const Tensor wide = in_floats(v), rate = in_floats(rates), strength = in_floats(beta), keys = in_floats(k),
               queries = in_floats(q);
  const Type one{DType::kFloat32, {v.dim(2), v.dim(3), k.dim(3)}};
  if (const StatePlaces pages = pages_of(one, state, context); pages.pool.defined()) {
    const Scanned made = paged_gated_delta_rule(of_one_row(wide), of_one_row(rate), of_one_row(strength),
                                                of_one_row(keys), of_one_row(queries), pages);
    context.cache->set_state_pool(state, made.state);
    return unsqueeze(made.y, 0);
  }
  const Scanned made =
      gated_delta_rule(wide, rate, strength, keys, queries, state_of_rows(one, state, v.dim(0), context));
  keep_state(made.state, state, context);
  return made.y;
}

Tensor without_padding(const Tensor& x, const Tensor& attention_mask, const ForwardContext& context) {
  if (!attention_mask.defined() || (context.cache && !context.cache->reads_prompt())) return x;
  if (attention_mask.shape() != Shape{x.dim(0), x.dim(1)})
    fail("attention_mask: expected {}, found {}; a state cannot see through another mask",
         to_string({x.dim(0), x.dim(1)}), to_string(attention_mask.shape()));
  Shape shape(x.shape().size(), 1);
  shape[0] = x.dim(0), shape[1] = x.dim(1);
  return x * reshape(cast(attention_mask, x.dtype()), shape);
}

}  // namespace transom
