// SPDX-License-Identifier: Apache-2.0
// What the TensorFlow and Flax classes of Transformers 4 call the tensors of a checkpoint of PyTorch, and how these lie
// there: the other way of parameter_names.h.
#pragma once

#include <string>
#include <vector>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// Whose checkpoint it is, as config.json says.
struct ForeignModel {
  std::string model_type, architecture;  // "bert", "BertForMaskedLM"
};

struct ForeignWeight {
  // Keras: the path of the dataset, "bert/tf_bert_for_masked_lm/bert/encoder/layer_._0/output/dense/kernel:0".
  // Flax: keys joined with '/'.
  std::string name;
  size_t source = 0;          // which of the tensors
  std::vector<int64_t> axes;  // axis i is the tensor's axes[i]; empty: as the tensor lies
  std::vector<int64_t> shape;
};

// Keras keeps weights that belong to the model itself, and not to a layer, in this group.
inline constexpr const char* kKerasTopLevel = "top_level_model_weights";

// In the order of the tensors; what the other library computes itself is left out. Errors (kUnsupported): Transformers
// has no such class there.
std::vector<ForeignWeight> keras_weights(const NamedViews& tensors, const ForeignModel& model);
std::vector<ForeignWeight> flax_weights(const NamedViews& tensors, const ForeignModel& model);

}  // namespace transom
