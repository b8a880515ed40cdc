// SPDX-License-Identifier: Apache-2.0
// What a directory of sentence-transformers says of its vectors: modules.json and the folders that it names,
// sentence_bert_config.json and config_sentence_transformers.json, in the forms of all versions of the library. What is
// not carried out is refused by name: modules that no vector of a text comes from here, code of its own, chat templates
// as inputs.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/sentences/sparse_pooling.h"

namespace transom {

// How the vectors of the tokens become one. Several at once: one behind the other.
enum class PoolingMode { kCls, kMax, kMean, kMeanSqrtLength, kWeightedMean, kLastToken };
// "cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken".
std::string name_of(PoolingMode mode);
std::optional<PoolingMode> pooling_mode_of(const std::string& name);
std::vector<std::string> pooling_mode_names();
// Of each mode the flag that older files have: "pooling_mode_mean_tokens".
std::vector<std::pair<PoolingMode, std::string>> pooling_flags();

// A module behind the pooling.
struct SentenceLayer {
  enum class Kind { kDense, kLayerNorm, kNormalize } kind = Kind::kNormalize;
  std::filesystem::path folder;  // where its weights are
  std::string path;              // that folder within the directory: "2_Dense"
  int64_t inputs = 0, outputs = 0;
  bool bias = true, residual = false;  // of kDense, as what follows
  std::string activation;              // the last part of the class's name: "Tanh"
};

enum class Similarity { kCosine, kDot, kEuclidean, kManhattan };
// "cosine", "dot", "euclidean", "manhattan".
std::string name_of(Similarity similarity);
// Greater is closer: distances are negative, as in SentenceTransformer.similarity().
double similarity_of(Similarity similarity, const std::vector<float>& a, const std::vector<float>& b);

struct SentenceModules {
  bool declared = false;                  // there is a modules.json
  std::filesystem::path transformer;      // the folder of the model in the directory; empty: the directory itself
  std::optional<int64_t> max_seq_length;  // tokens; empty: what tokenizer and model take
  bool do_lower_case = false;
  std::vector<PoolingMode> pooling{PoolingMode::kMean};
  // In place of `pooling`: vectors are weights of tokens, made of the scores of a masked-language head (SPLADE).
  std::optional<SparsePooling> sparse;
  std::optional<int64_t> max_active_dims;  // of these so many, the largest, are kept
  bool include_prompt = true;              // the tokens of the prompt take part in the pooling
  std::vector<SentenceLayer> layers;
  std::map<std::string, std::string> prompts;  // what texts begin with, by the use that is made of them
  std::string default_prompt;                  // what they begin with where nobody says
  Similarity similarity = Similarity::kCosine;
  std::optional<int64_t> truncate_dim;  // of the vector so many numbers are kept

  // The task of the model below.
  const char* task() const { return sparse ? "fill-mask" : "feature-extraction"; }
  bool normalizes() const { return !layers.empty() && layers.back().kind == SentenceLayer::Kind::kNormalize; }
};

// Without modules.json what SentenceTransformer makes of a model: the mean, or of a causal language model the last
// token.
SentenceModules read_sentence_modules(const std::filesystem::path& directory);

// Writes what read_sentence_modules() reads into a directory beside the model, which is in the directory itself, as
// sentence-transformers writes it. `modules` are those of `base`, whose files are taken over where it has them.
// `width`: of the states of tokens. The weights of the modules are SentenceHead's.
void write_sentence_modules(const SentenceModules& modules, const std::filesystem::path& base, int64_t width,
                            const std::filesystem::path& directory);

// The class of sentence-transformers that wrote the directory, as config_sentence_transformers.json says:
// "SentenceTransformer" if it does not.
std::string sentence_model_type(const std::filesystem::path& directory);

}  // namespace transom
