// SPDX-License-Identifier: Apache-2.0
// Tensors cut into boxes over several safetensors files, one or more of each process, as torch's distributed
// checkpoints write them for Hugging Face: shard-RRRRR-SET-FFFFF-of-NNNNN.safetensors, R the process from 1, F its file
// from 1. A file holds at most one box of a tensor, under the tensor's name and with the box's shape; where it begins
// in the whole is in the metadata, DCP_SHARDING_INFO: {"name": {"saved_offsets": [..]}}.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"

namespace transom {

// A box of a tensor: where it begins, and its elements.
struct TensorBox {
  std::string name;
  std::vector<int64_t> offsets;
  TensorView view;
};

// The sets that a checkpoint of a run has.
inline constexpr std::string_view kModelShards = "model", kOptimizerShards = "optimizer";

// Writes the boxes of process `rank` (from 0) into as many files as it takes, none where there are none; each appears
// complete or not at all. Returns the names of the files.
std::vector<std::string> write_shards(const fs::path& directory, std::string_view set, int64_t rank,
                                      const std::vector<TensorBox>& boxes);

// The files of a set, mapped. Any thread may read.
class ShardedTensorFiles {
 public:
  static bool exists(const fs::path& directory, std::string_view set = kModelShards);
  // Checks all headers, and that the boxes of each tensor fill it without overlaps. Errors name file and tensor.
  static ShardedTensorFiles open(const fs::path& directory, std::string_view set = kModelShards);
  // The same of files that are open already, with the paths that errors name.
  static ShardedTensorFiles join(const std::vector<std::pair<std::string, SafetensorsFile>>& files, std::string where);

  struct Whole {
    DType dtype = DType::kFloat32;
    std::vector<int64_t> shape;
  };
  const std::map<std::string, Whole, std::less<>>& tensors() const { return wholes_; }
  const std::string& where() const { return where_; }  // for errors
  // The elements at these places of each dimension (rising), dense and row-major; only these are read. Throws where
  // there is no such tensor; places are within its shape.
  std::vector<std::byte> read(std::string_view name, const std::vector<std::vector<int64_t>>& places) const;
  // The whole tensor; where one box has all of it, as it lies in the file.
  TensorView whole(std::string_view name) const;

 private:
  struct Box {
    std::vector<int64_t> offsets;
    TensorView view;
    std::string file;
  };
  const std::vector<Box>& boxes_of(std::string_view name) const;
  void take(const std::string& path, const SafetensorsFile& file);
  void check(const std::string& name, const std::vector<Box>& boxes);

  std::string where_;
  std::map<std::string, Whole, std::less<>> wholes_;
  std::map<std::string, std::vector<Box>, std::less<>> boxes_;
};

}  // namespace transom
