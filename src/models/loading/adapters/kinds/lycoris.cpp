// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/kinds/lycoris.h"

#include "base/error.h"
#include "models/nn/layers.h"
#include "models/nn/weight.h"

namespace transom {

Tensor AddedMatrix::product(const Tensor& x, const Parameter& weight, const Tensor& bias,
                            ForwardContext& context) const {
  const Tensor own = product_without_adapter(x, weight, bias, context.computing);
  Tensor added = matrix(context.computing) * scaling;
  if (context.training && rank_dropout > 0) {
    const Shape rows{added.dim(0), 1};
    const Tensor drawn = random_uniform(next_random_key(context), rows);
    Tensor kept = cast(greater(drawn, full(rows, rank_dropout)), DType::kFloat32);
    if (scales_rows) kept = kept / mean(kept, {0}, true);
    added = added * kept;
  }
  if (context.training && module_dropout > 0) {
    const Tensor drawn = random_uniform(next_random_key(context), {1, 1});
    added = added * cast(greater(drawn, full({1, 1}, module_dropout)), DType::kFloat32);
  }
  return own + cast(linear(x, added, {}, context.computing), own.dtype());
}

Tensor AddedMatrix::merged(const Parameter& weight) const {
  return as_held(wide_rows(weight) + cast(matrix(kAsGiven), DType::kFloat32) * scaling, weight);
}

void take_lycoris_fields(const AdapterConfig& config, const AdaptedWeight& target, AddedMatrix& adapter) {
  if (target.weight->use == Parameter::Use::kTransposedLinear)
    fail(ErrorKind::kUnsupported,
         "{}: target_modules: expected layers that hold weights as [out, in], as PEFT does for {}, {} does not",
         config.where(), config.kind().type, target.module);
  adapter.scaling = config.scaling(target.module);
  adapter.rank_dropout = config.fields().get_float("rank_dropout", 0);
  adapter.module_dropout = config.fields().get_float("module_dropout", 0);
}

}  // namespace transom
