// SPDX-License-Identifier: Apache-2.0
// Texts as vectors, as sentence-transformers' SentenceTransformer.encode() computes them: what a text begins with and
// where it is cut, the model, how the vectors of the tokens become one, and the modules behind.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/sentences/sentence_head.h"
#include "models/sentences/sentence_modules.h"
#include "transom/tensor.h"
#include "work/pipelines/parameters.h"
#include "work/pipelines/text/text_model.h"

namespace transom {

struct EmbeddingOptions {
  // In place of what modules.json says: the vectors of the tokens are pooled so, and nothing is done with the result.
  std::optional<PoolingMode> pooling;
  std::optional<std::string> prompt;  // what texts begin with; empty: the default prompt of the model
  std::optional<bool> normalize;      // to length 1; false leaves out a Normalize at the end; empty: as the model says
  std::optional<int64_t> truncate_dim;     // the first numbers that are kept; empty: as the model says
  std::optional<int64_t> max_active_dims;  // of weights of tokens the largest that are kept; empty: as the model says
};

class SentenceModel {
 public:
  // Reads what the directory says, the model and the weights of the modules behind it. What is not carried out is
  // refused here, or with `later` where somebody asks for it: embed() without a pooling of its own.
  static SentenceModel load(const std::string& directory, const LoadOptions& options, bool later = false);

  const TextModel& text() const { return *text_; }
  const SentenceModules& modules() const { return modules_; }
  // Where in the directory that was read the model and its tokenizer are.
  std::string folder(const std::string& directory) const;
  // The most tokens of a text; empty where nothing limits it.
  std::optional<int64_t> max_length() const { return max_length_; }
  // The prompt of a name. Refuses a name that the model does not have by the names that it has.
  const std::string& prompt_named(const std::string& name) const;

  // Texts as ids, cut to max_length().
  std::vector<Encoding> encode(const std::vector<std::string>& texts) const;
  // The tokens at the beginning of a text with that prompt which take no part in the pooling: none, unless the model
  // leaves prompts out.
  int64_t left_out(const std::string& prompt) const;

  // One vector a text, in the order of the texts. Texts of like length share a batch, so that little is padding. A text
  // of which no token takes part in the pooling is pooled to zeros.
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts, const EmbeddingOptions& options) const;
  // The same of texts that are encoded already, behind their prompt, of whose tokens the first `left_out` take no part.
  std::vector<std::vector<float>> embed(const std::vector<Encoding>& encodings, const EmbeddingOptions& options,
                                        int64_t left_out) const;

 private:
  // [B, D] of the states [B, T, D] of a batch.
  Tensor vectors_of(const Tensor& states, const std::vector<const Encoding*>& batch, const EmbeddingOptions& options,
                    int64_t left_out) const;

  std::shared_ptr<const TextModel> text_;
  SentenceModules modules_;
  std::string refusal_;  // why the modules are not carried out; empty: they are
  SentenceHead head_;
  std::optional<int64_t> max_length_;
};

// The parameters of the tasks that give vectors: prompt, prompt_name, normalize_embeddings, truncate_dim.
TaskParameters embedding_parameters();
// `pooling` says "auto" or the name of a mode.
EmbeddingOptions embedding_options(const TaskOptions& given, const std::string& pooling, const SentenceModel& model);

}  // namespace transom
