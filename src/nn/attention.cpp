// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

// The lowest bfloat16: finite in every type that scores are computed in, so that a row with nothing to see stays
// finite.
constexpr double kMasked = -3.3895313892515355e38;

}  // namespace

Tensor additive_mask(const Tensor& attention_mask, DType dtype) {
  if (!attention_mask.defined()) return {};
  Tensor mask = attention_mask;
  if (mask.rank() == 2) mask = unsqueeze(unsqueeze(mask, 1), 1);
  else if (mask.rank() == 3) mask = unsqueeze(mask, 1);
  else if (mask.rank() != 4) fail("attention_mask: expected [batch, length], found {}", to_string(mask.shape()));
  else if (is_floating(mask.dtype())) return cast(mask, dtype);
  const Tensor one = full(mask.shape(), 1, dtype);
  return (one - cast(mask, dtype)) * kMasked;
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, const Tensor& mask,
                            const Dropout& dropout, ForwardContext& context) {
  const int64_t B = q.dim(0), T = q.dim(1), S = k.dim(1), d = q.dim(2) / heads;
  const Tensor queries = reshape(q, {B, T, heads, d}), keys = reshape(k, {B, S, heads, d}),
               values = reshape(v, {B, S, heads, d});
  Tensor scores =
      dot_general(queries, keys, {{0, 2}, {0, 2}, {3}, {3}}) * (1 / std::sqrt(static_cast<double>(d)));  // [B, H, T, S]
  if (mask.defined()) scores = scores + cast(mask, scores.dtype());
  const Tensor weights = cast(dropout(softmax(scores), context), values.dtype());
  const Tensor mixed = dot_general(weights, values, {{0, 1}, {0, 2}, {3}, {1}});  // [B, H, T, d]
  return reshape(permute(mixed, {0, 2, 1, 3}), {B, T, heads * d});
}

}  // namespace transom
