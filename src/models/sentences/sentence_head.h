// SPDX-License-Identifier: Apache-2.0
// How the states of a text's tokens become its vector: the pooling and the modules behind it, with their weights, as
// the modules of sentence-transformers compute them.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "models/sentences/sentence_modules.h"
#include "transom/model.h"

namespace transom {

// [B, D]: of the states [B, T, D] of B texts. `counted` [B, T] is 1 where a token takes part, which are neighbours, and
// 0 elsewhere; a text of which none does gets zeros. Throws where the shapes differ.
Tensor pooled(const Tensor& states, const Tensor& counted, PoolingMode mode);

// x [B, D] with rows of length 1; rows that are zero stay so.
Tensor at_length_one(const Tensor& x);

// Shares its parameters with its copies. Any number of threads may ask one while nobody trains it.
class SentenceHead {
 public:
  SentenceHead() = default;  // the mean, and nothing behind it
  // Reads the weights of the modules. `width`: of the states, or of the scores of a sparse pooling; 0: not known.
  // Refuses weights of other shapes and activations that are not torch's, by the file.
  SentenceHead(const SentenceModules& modules, int64_t width);

  // f32 [B, D]: of states [B, T, H] of any float type and counted [B, T] as of pooled(). `normalizes` false leaves out
  // a Normalize at the end.
  Tensor operator()(const Tensor& states, const Tensor& counted, const Computing& computing,
                    bool normalizes = true) const;
  // Of a vector; 0 where it is not known.
  int64_t width() const { return width_; }
  // The output of the model that the vector is made of.
  const char* reads() const { return sparse_ ? "logits" : "last_hidden_state"; }

  // f32, named by the module's folder: "2_Dense.linear.weight".
  std::vector<std::shared_ptr<Parameter>> parameters() const;
  // Writes the weights of the modules into their folders below `directory`, and reads them from there.
  void save(const std::filesystem::path& directory) const;
  void load(const std::filesystem::path& directory);

 private:
  struct Layer {
    SentenceLayer about;
    std::shared_ptr<Parameter> weight, bias, residual;
  };
  static void read(const Layer& layer, const std::filesystem::path& folder);
  std::vector<PoolingMode> pooling_{PoolingMode::kMean};
  std::optional<SparsePooling> sparse_;
  std::vector<Layer> layers_;
  int64_t width_ = 0;
};

}  // namespace transom
