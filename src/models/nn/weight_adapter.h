// SPDX-License-Identifier: Apache-2.0
// What PEFT puts beside or around the weight of a layer, which itself stays as it is. Each kind of adapter derives its
// own (models/loading/adapters/kinds).
#pragma once

#include <string_view>

#include "transom/model.h"

namespace transom {

class WeightAdapter {
 public:
  virtual ~WeightAdapter() = default;

  // The outputs [..., out] of a linear layer for x [..., in]; `bias` [out] is undefined where the layer has none. As it
  // stands here: those of the layer alone.
  virtual Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const;
  // Rows [..., D] of a table for ids [...], which the table gives as `rows`. As it stands here: those.
  virtual Tensor rows(const Tensor& rows, const Tensor& ids, const Computing& computing) const;

  // The weight with the adapter in it, in its own shape and type. Whatever changes the bias is left out.
  virtual Tensor merged(const Parameter& weight) const = 0;
  // The bias beside a merged weight; of a layer without one the argument is undefined, and needs_bias() is false.
  virtual Tensor merged_bias(const Tensor& bias) const { return bias; }
  virtual bool needs_bias() const { return false; }

  // What of it tensor parallelism cannot cut together with the layer, by its name in adapter_config.json; empty:
  // nothing.
  virtual std::string_view uncut() const = 0;
};

// The adapter that a weight has under Computing::adapters, else its own; null: none.
const WeightAdapter* adapter_of(const Parameter& weight, const Computing& computing);

// A weight as f32 [out, in], whichever way round it is held and in whichever form.
Tensor wide_rows(const Parameter& weight);
// f32 [out, in] in the weight's own layout and type.
Tensor as_held(const Tensor& rows, const Parameter& weight);

}  // namespace transom
