// SPDX-License-Identifier: Apache-2.0
// Activations and norms that are written as one operator with the sum before them.
#include "models/onnx/import/contrib/contrib.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

Tensor with_bias(const Call& call, size_t bias) {
  const Tensor& x = call.tensor(0);
  if (!call.has(bias)) return x;
  call.require(call.tensor(bias).rank() == 1 && x.rank() >= 1 && call.tensor(bias).dim(0) == x.dim(-1),
               "the bias does not fit the last axis");
  return add(x, call.tensor(bias));
}

Results contrib_gelu(Call& call) {
  only_attributes(call, {});
  return {call.like(0, gelu(call.tensor(0)))};
}
Results bias_gelu(Call& call) {
  only_attributes(call, {});
  return {call.like(0, gelu(with_bias(call, 1)))};
}
Results fast_gelu(Call& call) {
  only_attributes(call, {});
  return {call.like(0, gelu_tanh(with_bias(call, 1)))};
}
Results quick_gelu(Call& call) {
  only_attributes(call, {"alpha"});
  const double alpha = call.number("alpha", 1.702f);
  return {call.like(0, in_wide(call.tensor(0), [&](const Tensor& x) { return mul(x, sigmoid(x * alpha)); }))};
}

// The sum of input, skip and bias, in the type of the input.
Tensor skip_sum(const Call& call, size_t bias) {
  const Tensor &x = call.tensor(0), &skip = call.tensor(1);
  call.require(x.rank() >= 2 && x.rank() <= 3, "expected an input of rank 2 or 3");
  const bool fits = skip.rank() >= 1 && skip.rank() <= x.rank() && skip.dim(-1) == x.dim(-1) &&
                    (skip.rank() < 2 || skip.dim(-2) == x.dim(-2)) &&
                    (skip.rank() < 3 || skip.dim(0) == x.dim(0) || skip.dim(0) == 1);
  call.require(fits, "the skip input does not fit its input");
  Tensor total = add(wide(x), wide(skip));
  if (call.has(bias)) {
    call.require(call.shape(bias) == Shape{x.dim(-1)}, "the bias does not fit the last axis");
    total = add(total, wide(call.tensor(bias)));
  }
  return total;
}

// Means and deviations are of training alone.
void refuse_statistics(const Call& call) {
  if (call.wants(1) || call.wants(2)) call.not_supported("its outputs mean and inv_std_var");
}

Tensor checked_scale(const Call& call, size_t input, const Tensor& x) {
  call.require(call.shape(input) == Shape{x.dim(-1)}, "the scales do not fit the last axis");
  return cast(call.tensor(input), x.dtype());
}

Results skip_layer_normalization(Call& call) {
  only_attributes(call, {"epsilon"});
  refuse_statistics(call);
  const Tensor total = skip_sum(call, 4), gamma = checked_scale(call, 2, total);
  const Tensor beta = call.has(3) ? checked_scale(call, 3, total) : zeros(gamma.shape(), gamma.dtype());
  const Tensor y = layer_norm(total, gamma, beta, call.number("epsilon", 1e-12f), call.computing());
  const DType dtype = call.tensor(0).dtype();
  return {call.like(0, cast(y, dtype)), {}, {}, call.like(0, cast(total, dtype))};
}

Results skip_simplified_layer_normalization(Call& call) {
  only_attributes(call, {"epsilon"});
  refuse_statistics(call);
  const Tensor total = skip_sum(call, 3);
  const Tensor y = rms_norm(total, checked_scale(call, 2, total), call.number("epsilon", 1e-12f), call.computing());
  const DType dtype = call.tensor(0).dtype();
  return {call.like(0, cast(y, dtype)), {}, {}, call.like(0, cast(total, dtype))};
}

// The sum of words, positions and segments, normalised; and how many tokens of each row the mask keeps.
Results embed_layer_normalization(Call& call) {
  only_attributes(call, {"epsilon", "mask_index_type"});
  only_value(call, "mask_index_type", 0);
  const Tensor& ids = call.tensor(0);
  const Tensor &words = call.tensor(2), &places = call.tensor(3);
  call.require(ids.rank() == 2 && words.rank() == 2 && places.rank() == 2 && words.dim(1) == places.dim(1),
               "expected ids of rank 2, and tables of one width");
  call.require(call.has(1) == call.has(4), "expected segment ids and their table, or neither");
  const int64_t B = ids.dim(0), T = ids.dim(1);
  Tensor total = gather(wide(words), cast(ids, DType::kInt64), 0);
  if (call.has(8)) {
    const Tensor& given = call.tensor(8);
    call.require(given.rank() == 2 && given.dim(1) == T && (given.dim(0) == B || given.dim(0) == 1),
                 "the position ids do not fit the ids");
    total = add(total, gather(wide(places), cast(given, DType::kInt64), 0));
  } else {
    call.require(T <= places.dim(0), "there are more tokens than positions");
    total = add(total, slice(wide(places), 0, 0, T));
  }
  if (call.has(4)) {
    call.require(call.shape(1) == ids.shape() && call.tensor(4).rank() == 2 && call.tensor(4).dim(1) == words.dim(1),
                 "the segments do not fit the ids");
    total = add(total, gather(wide(call.tensor(4)), cast(call.tensor(1), DType::kInt64), 0));
  }
  const Tensor y = layer_norm(total, checked_scale(call, 5, total), checked_scale(call, 6, total),
                              call.number("epsilon", 1e-12f), call.computing());
  Tensor kept = zeros({B}, DType::kInt32);
  if (call.has(7)) {
    const Tensor& mask = call.tensor(7);
    call.require(mask.shape() == ids.shape(), "the mask does not fit the ids");
    kept = reduce_sum(cast(equal(mask, constant(1, mask.dtype())), DType::kInt32), {1});
  }
  const DType dtype = words.dtype();
  return {call.like(2, cast(y, dtype)), {ElementType::kInt32, kept}, call.like(2, cast(total, dtype))};
}

}  // namespace

const RegisterOperators kContribRows = {
    contrib("Gelu", contrib_gelu),
    contrib("BiasGelu", bias_gelu),
    contrib("FastGelu", fast_gelu),
    contrib("QuickGelu", quick_gelu),
    contrib("SkipLayerNormalization", skip_layer_normalization),
    contrib("SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization),
    contrib("EmbedLayerNormalization", embed_layer_normalization)};

}  // namespace transom::onnx
