// SPDX-License-Identifier: Apache-2.0
// Files that hold the experts of a layer in two tensors, as Transformers 5 has them in memory and writes where it is
// asked to (save_original_format=False): experts.gate_up_proj [E, 2 I, D] and experts.down_proj [E, D, I].
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// Where the weight of one expert stands in such a tensor.
struct FusedExpert {
  std::string tensor;  // "model.layers.3.mlp.experts.gate_up_proj"
  int64_t expert = 0;  // its place along the first axis
  int64_t part = 0;    // of the rows of an expert: the first half, or the second
  int64_t parts = 1;   // how many weights an expert has in this tensor
};
// Of a parameter: "model.layers.3.mlp.experts.5.up_proj.weight"; nothing for those of no expert.
std::optional<FusedExpert> fused_expert(const std::string& parameter);

// The weight as a view of the same memory. What is no such tensor is an error that begins with `where`.
TensorView view_of_expert(const TensorView& all, const FusedExpert& place, const std::string& where);

}  // namespace transom
