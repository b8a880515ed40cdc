// SPDX-License-Identifier: Apache-2.0
// What Transformers 4 calls the variables of TensorFlow and Flax checkpoints in PyTorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct ParameterName {
  std::string name;         // "bert.encoder.layer.0.output.dense.weight"
  bool transposed = false;  // the axes stand in another order there, see torch_axes
};

// Of tf_model.h5: the path of a dataset, "layer/model/layer/.../kernel:0", or in shards "layer/.../kernel:0".
ParameterName name_of_keras_weight(std::string_view path, bool in_shard);

// Of flax_model.msgpack: keys joined with '/'. `has_statistics`: the tree has batch_stats and params at its top.
ParameterName name_of_flax_parameter(std::string_view path, bool has_statistics);

// Which library wrote a TensorFlow checkpoint, told by the names of its variables.
enum class GoogleModel { kBert, kAlbert, kElectra, kMeshT5 };
GoogleModel google_model_of(const std::vector<std::string>& variables);
// Nothing for the optimizer's variables and counters.
std::optional<ParameterName> name_of_google_variable(std::string_view name, GoogleModel model);

// The order of a kernel's axes in PyTorch by its rank in TensorFlow and Flax: [in, out] -> [out, in], [w, in, out] ->
// [out, in, w], [h, w, in, out] -> [out, in, h, w].
std::vector<int64_t> torch_axes(size_t rank);

}  // namespace transom
