// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/layer_inputs.h"

#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

int64_t block_count(const DecoderPlan& plan) { return static_cast<int64_t>(plan.blocks.size()); }

Linear::Options without_bias(const DecoderPlan& plan) { return {.bias = false, .deviation = plan.deviation}; }

}  // namespace

LayerVectors::LayerVectors(const Scope& scope, const DecoderPlan& plan, const LayerInputsPlan& inputs)
    : width_(inputs.width),
      layers_(block_count(plan)),
      hidden_(static_cast<double>(plan.width)),
      table_(scope / inputs.table, inputs.vocabulary, layers_ * width_, plan.deviation, plan.padding.value_or(-1)),
      projection_(scope / inputs.projection, plan.width, layers_ * width_, without_bias(plan)),
      norm_(scope / inputs.projection_norm, width_, plan.norm) {}

Tensor LayerVectors::operator()(const Tensor& input_ids, const Tensor& x, ForwardContext& context) const {
  if (!input_ids.defined())
    fail(ErrorKind::kUnsupported,
         "inputs_embeds: this model has vectors of each token for each layer, which rows do not say; give input_ids");
  const Shape apart{x.dim(0), x.dim(1), layers_, width_};
  const Tensor own = reshape(table_(input_ids, context), apart) * std::sqrt(static_cast<double>(width_));
  const Tensor made = norm_(reshape(projection_(x, context) * (1 / std::sqrt(hidden_)), apart), context);
  return (made + cast(own, made.dtype())) * std::sqrt(0.5);
}

LayerVectorOfBlock::LayerVectorOfBlock(const Scope& scope, const DecoderPlan& plan, const LayerInputsPlan& inputs,
                                       int64_t block)
    : block_(block),
      activation_(inputs.activation),
      gate_(scope / inputs.gate, plan.width, inputs.width, without_bias(plan)),
      outward_(scope / inputs.outward, inputs.width, plan.width, without_bias(plan)),
      norm_(scope / inputs.norm, plan.width, plan.norm) {}

Tensor LayerVectorOfBlock::operator()(const Tensor& x, const Tensor& all, ForwardContext& context) const {
  const Tensor let_by = activation(activation_, gate_(x, context));
  const Tensor own = squeeze(slice(all, 2, block_, block_ + 1), 2);
  return x + norm_(outward_(let_by * cast(own, let_by.dtype()), context), context);
}

}  // namespace transom
