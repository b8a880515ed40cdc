// SPDX-License-Identifier: Apache-2.0
// Adapters that add a whole matrix, made of small ones, to the weight: LoHa and LoKr of LyCORIS (Yeh et al., 2024).
#pragma once

#include "models/loading/adapters/adapter_making.h"

namespace transom {

class AddedMatrix : public WeightAdapter {
 public:
  double scaling = 1;
  double rank_dropout = 0;    // of whole rows, in training
  bool scales_rows = true;    // what is kept of the rows is divided by the share that is
  double module_dropout = 0;  // of the whole matrix, in training

  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override;
  Tensor merged(const Parameter& weight) const override;

 protected:
  // [out, in], before scaling.
  virtual Tensor matrix(const Computing& computing) const = 0;
};

// What the two kinds have in common in their configurations.
void take_lycoris_fields(const AdapterConfig& config, const AdaptedWeight& target, AddedMatrix& adapter);

}  // namespace transom
