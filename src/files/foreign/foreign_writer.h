// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/files/files.h"
#include "files/foreign/foreign_layout.h"

namespace transom {

enum class ForeignFormat { kKeras, kFlax };

// Writes tensors of PyTorch's names as the TensorFlow or Flax classes of Transformers 4 read them: tf_model.h5 or
// flax_model.msgpack, or shards of at most `max_shard_bytes` with their index, written last. Weights of 16 bits whose
// type HDF5 lacks become f32. Weights of an earlier save of the same form are replaced. The directory is there. Errors:
// Transformers has no such class; a tensor of a type that the form lacks.
void write_foreign_checkpoint(const fs::path& directory, const NamedViews& tensors, const ForeignModel& model,
                              ForeignFormat format, uint64_t max_shard_bytes);

}  // namespace transom
