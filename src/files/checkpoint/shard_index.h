// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint in several files: which tensor lies in which.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "files/checkpoint/tensor_view.h"

namespace transom {

struct ShardIndex {
  std::map<std::string, std::string> files;  // by tensor; plain names in the index's own directory
  uint64_t total_parameters = 0, total_size = 0;
};

// Reads the text of model.safetensors.index.json or pytorch_model.bin.index.json. No file may lead out of the
// directory, no tensor may come twice. Errors begin with `where`.
ShardIndex parse_shard_index(std::string_view text, const std::string& where);
// As Transformers writes it.
std::string print_shard_index(const ShardIndex& index);

}  // namespace transom
