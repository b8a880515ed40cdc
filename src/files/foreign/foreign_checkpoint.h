// SPDX-License-Identifier: Apache-2.0
// Checkpoints that TensorFlow and Flax wrote, as tensors by the names and in the layout of PyTorch.
#pragma once

#include <optional>
#include <string>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

inline constexpr const char *kKerasWeights = "tf_model.h5", *kFlaxWeights = "flax_model.msgpack";

struct ForeignCheckpoint {
  NamedViews tensors;
  std::string where;  // the file, or the index, for errors
};

// What a directory holds of: tf_model.h5, flax_model.msgpack, either in shards with an index, or a TensorFlow
// checkpoint (NAME.index with NAME.data-*). Nothing where there is none of them. Matrices that stand the other way
// round are turned into memory of their own; all else is read where the file is mapped.
std::optional<ForeignCheckpoint> open_foreign_checkpoint(const fs::path& directory);

bool holds_foreign_checkpoint(const fs::path& directory);

// The index of the TensorFlow checkpoint in a directory: the only one, or that which the file "checkpoint" names.
std::optional<fs::path> tensorflow_index(const fs::path& directory);

}  // namespace transom
