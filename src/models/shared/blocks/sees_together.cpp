// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/sees_together.h"

#include "base/error.h"
#include "models/nn/attention/cache.h"

namespace transom {
namespace {

constexpr char kSeesTogether[] = "sees_together", kWithinWindow[] = "sees_together_within_window";

}  // namespace

void set_sees_together(NamedTensors& inputs, const SeesTogether& together) {
  inputs.set(together.within_window ? kWithinWindow : kSeesTogether, together.groups);
}

SeesTogether sees_together(const NamedTensors& inputs) {
  if (const Tensor within = inputs.find(kWithinWindow); within.defined()) return {within, true};
  return {inputs.find(kSeesTogether), false};
}

Tensor numbered_runs(const Tensor& is_one) {
  const Tensor inside = cast(not_equal(is_one, zeros(is_one.shape(), is_one.dtype())), DType::kInt64);
  const Tensor before = pad(slice(inside, 1, 0, inside.dim(1) - 1), {0, 1}, {0, 0}, 0);
  return cumulative_sum(inside * (full(before.shape(), 1, DType::kInt64) - before), 1) * inside;
}

Tensor bias_of(const SeesTogether& together, const DecoderInputs& in, int64_t window, const ForwardContext& context) {
  const int64_t B = in.batch, T = in.length;
  if (together.groups.shape() != Shape{B, T})
    fail("token_type_ids: expected {}, found {}", to_string({B, T}), to_string(together.groups.shape()));
  if (context.cache && !context.cache->reads_prompt())
    fail(ErrorKind::kUnsupported,
         "tokens that see each other are read in one pass with all before them, which a cache has seen already");
  if (!context.cache && !in.causal)
    fail(ErrorKind::kUnsupported,
         "attention_mask: a mask of four axes beside tokens that see each other: leave it out");
  const Shape all{B, T, T};
  const Tensor query = iota(all, 1), key = iota(all, 2);
  const auto groups_at = [&](const Shape& shape) { return broadcast_to(reshape(together.groups, shape), all); };
  const Tensor own = groups_at({B, T, 1});
  const Tensor same = logical_and(equal(own, groups_at({B, 1, T})), greater(own, zeros(all, DType::kInt64)));
  Tensor visible = less_equal(key, query);
  if (window > 0) {
    const Tensor near = greater(key, query - static_cast<double>(window));
    visible = together.within_window ? logical_and(near, logical_or(visible, same))
                                     : logical_or(logical_and(near, visible), same);
  } else {
    visible = logical_or(visible, same);
  }
  const Tensor bias = unsqueeze(additive_where(visible), 1),
               padding = context.cache ? context.cache->of_padding() : in.bias;
  return padding.defined() ? minimum(bias, broadcast_to(padding, bias.shape())) : bias;
}

}  // namespace transom
