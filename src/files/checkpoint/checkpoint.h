// SPDX-License-Identifier: Apache-2.0
// The weights of a model directory, in whichever of the forms that Transformers writes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/files/files.h"
#include "files/blocks/block_matrix.h"
#include "files/blocks/integer_codes.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

// A matrix that a checkpoint holds in codes: of a linear layer by outputs [N, K], also where the parameter of the model
// is [K, N].
struct CompressedWeight {
  std::shared_ptr<const BlockMatrix> matrix;
  std::shared_ptr<const IntegerCodes> integers =
      nullptr;                      // the same numbers, where the checkpoint has scales of inputs
  std::vector<int64_t> shape = {};  // of the parameter, where it is no matrix
};

class Checkpoint {
 public:
  // model.safetensors, else its shards by model.safetensors.index.json, else pytorch_model.bin, else its shards, else
  // what TensorFlow or Flax wrote (io/foreign); or a GGUF file. Weights in codes, as the configuration says, are among
  // compressed().
  static Checkpoint open(const fs::path& directory);
  // Whether there is one of these files.
  static bool exists(const fs::path& directory);
  // Empty; `where` is for errors.
  explicit Checkpoint(std::string where) : where_(std::move(where)) {}

  const NamedViews& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  const std::map<std::string, CompressedWeight, std::less<>>& compressed() const { return compressed_; }
  const CompressedWeight* find_compressed(std::string_view name) const;
  const std::string& where() const { return where_; }  // the file, or the index, for errors

  void add(std::string name, TensorView tensor);
  void add_compressed(std::string name, CompressedWeight weight);
  // Each tensor changes what the model computes: one of a layer or module that a model has and does not read itself is
  // an error there. So it is in GGUF; other files hold heads, buffers and halves of adapters besides.
  void expect_all_read() { is_all_read_ = true; }
  bool is_all_read() const { return is_all_read_; }
  // Takes a tensor out; an empty view where there is none.
  std::optional<TensorView> take(std::string_view name);

 private:
  Checkpoint() = default;
  void add(NamedViews tensors);
  // The tensors of one file of several. Of one that others hold as well, the file that the index names counts.
  void add_shard(NamedViews tensors, const std::string& shard, const std::map<std::string, std::string>& places);
  void add_aliases(const std::map<std::string, std::string>& aliases);  // by the other name, the one that is there
  NamedViews tensors_;
  std::map<std::string, size_t, std::less<>> places_;
  std::map<std::string, CompressedWeight, std::less<>> compressed_;
  std::string where_;
  bool is_all_read_ = false;
};

// The files that an index (model.safetensors.index.json) names; an error where one leads out of the directory.
std::set<std::string> shard_names(const fs::path& index);

// Writes model.safetensors, or shards of at most `max_shard_bytes` with their index (written last), and removes weight
// files of an earlier save that do not belong to this one.
void save_checkpoint(const fs::path& directory, const NamedViews& tensors, uint64_t max_shard_bytes);

}  // namespace transom
