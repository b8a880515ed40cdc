// SPDX-License-Identifier: Apache-2.0
// Files that hold the experts of a layer in two tensors, as Transformers 5 has them in memory and writes where it is
// asked to (save_original_format=False): experts.gate_up_proj [E, 2 I, D] and experts.down_proj [E, D, I]. Experts with
// biases (gpt-oss) always lie so, and turned: gate_up_proj [E, D, 2 I], in which gate and up take turns, down_proj
// [E, I, D], gate_up_proj_bias [E, 2 I] and down_proj_bias [E, D]. Those of Granite always lie so too, not turned:
// input_linear.weight [E, 2 I, D] and output_linear.weight [E, D, I]; and those that stand in the block itself (Gemma
// 4: layers.3.experts): gate_up_proj [E, 2 I, D] and down_proj [E, D, I].
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "files/checkpoint/tensor_view.h"
#include "transom/model.h"

namespace transom {

// Where the weight of one expert stands in such a tensor.
struct FusedExpert {
  std::string tensor;  // "model.layers.3.mlp.experts.gate_up_proj"
  int64_t expert = 0;  // its place along the first axis
  int64_t part = 0;    // of the rows of an expert: the first half, or the second
  int64_t parts = 1;   // how many weights an expert has in this tensor
  bool is_bias = false;
  bool always = false;  // files have no other form
  std::string biases;   // a tensor that shows by being there that experts lie turned
};
// Of a parameter: "model.layers.3.mlp.experts.5.up_proj.weight", or .bias; nothing for those of no expert.
std::optional<FusedExpert> fused_expert(const std::string& parameter);

// The weight as a view of the same memory. What is no such tensor is an error that begins with `where`.
TensorView view_of_expert(const TensorView& all, const FusedExpert& place, const std::string& where);
// The same of turned experts, as memory of its own.
TensorView turned_back(const TensorView& all, const FusedExpert& place, const std::string& where);

// Tensors by the names of parameters as files have them, with those experts together that always are.
NamedTensors::Items with_joined_experts(NamedTensors::Items tensors);

}  // namespace transom
