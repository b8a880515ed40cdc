// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/sparse_pooling.h"

#include "base/error.h"
#include "models/sentences/module_file.h"
#include "transom/ops.h"

namespace transom {

SparsePooling SparsePooling::read(const std::filesystem::path& folder) {
  ModuleFile file(folder / "config.json");
  const auto choice = [&](const char* name, const char* usual, const char* other) {
    const std::string value = file.text(name, usual);
    if (value != usual && value != other)
      fail("{}: {}: expected {} or {}, found {}", file.where(), name, usual, other, quoted(value));
    return value == other;
  };
  SparsePooling pooling;
  pooling.sum = choice("pooling_strategy", "max", "sum");
  pooling.log_twice = choice("activation_function", "relu", "log1p_relu");
  // The vocabulary's size is the model's; parts of texts are about memory.
  file.without_effect({"word_embedding_dimension", "embedding_dimension", "chunk_size"});
  file.finish();
  return pooling;
}

Tensor sparse_weights(const Tensor& scores, const Tensor& counted, const SparsePooling& pooling) {
  if (scores.rank() != 3 || counted.shape() != Shape{scores.dim(0), scores.dim(1)})
    fail("pooling: expected scores [B, T, V] and which of them count [B, T], found {} and {}",
         to_string(scores.shape()), to_string(counted.shape()));
  Tensor weights = log1p(relu(cast(scores, DType::kFloat32) * unsqueeze(cast(counted, DType::kFloat32), -1)));
  if (pooling.log_twice) weights = log1p(weights);
  return pooling.sum ? reduce_sum(weights, {1}) : reduce_max(weights, {1});
}

}  // namespace transom
