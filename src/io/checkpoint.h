// SPDX-License-Identifier: Apache-2.0
// The weights of a model directory, in whichever of the forms that Transformers writes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/files.h"
#include "io/tensor_view.h"

namespace transom {

class Checkpoint {
 public:
  // model.safetensors, else its shards by model.safetensors.index.json, else pytorch_model.bin, else its shards, else
  // what TensorFlow or Flax wrote (io/foreign).
  static Checkpoint open(const fs::path& directory);
  // Whether the directory holds one of these files.
  static bool exists(const fs::path& directory);

  const NamedViews& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  const std::string& where() const { return where_; }  // the file, or the index, for errors

 private:
  void add(NamedViews tensors);
  NamedViews tensors_;
  std::map<std::string, size_t, std::less<>> places_;
  std::string where_;
};

// The files that an index (model.safetensors.index.json) names; an error where one leads out of the directory.
std::set<std::string> shard_names(const fs::path& index);

// Writes model.safetensors, or shards of at most `max_shard_bytes` with their index (written last), and removes weight
// files of an earlier save that do not belong to this one.
void save_checkpoint(const fs::path& directory, const NamedViews& tensors, uint64_t max_shard_bytes);

}  // namespace transom
