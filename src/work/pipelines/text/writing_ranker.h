// SPDX-License-Identifier: Apache-2.0
// A language model as a ranker: query and document stand in a prompt, and the score is the logit of a token ("yes") at
// its end, less that of another ("no"). As sentence-transformers' CrossEncoder with LogitScore has it, and as
// Qwen3-Reranker was published.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "work/pipelines/text/text_model.h"

namespace transom {

// Whether the directory holds such a ranker, by its modules.json.
bool has_logit_score(const std::filesystem::path& directory);

// Any number of threads may ask one.
class WritingRanker {
 public:
  // Without modules.json: a causal language model whose tokenizer has "yes" and "no", and whose chat template has
  // places for a query and a document, or which thinks between marks, as Qwen3-Reranker.
  WritingRanker(const std::string& directory, const LoadOptions& options);

  const TextModel& text() const { return text_; }
  std::optional<int64_t> max_length() const { return longest_; }
  // Of a query and a document with the checkpoint's prompt, of which nothing is cut.
  int64_t tokens_of_pair(const std::string& query, const std::string& document) const;
  struct Asked {
    int64_t batch_size = 1;
    std::optional<std::string> prompt = {};  // in place of the checkpoint's: what the model is told
    std::optional<int64_t> max_length = {};  // of a pair in tokens; longer documents are cut
  };
  // One score, as a logit, for each document.
  std::vector<double> scores(const std::string& query, const std::vector<std::string>& documents,
                             const Asked& asked) const;

 private:
  enum class Form {
    kFlat,
    kParts,
    kPair,
    kInstructed
  };  // messages, messages of parts, two texts, the published prompt
  void read_modules(const std::filesystem::path& directory);
  void read_file_of_model(const std::filesystem::path& directory);
  bool template_holds_pairs(Form form) const;
  std::string prompted(Form form, std::string_view query, std::string_view document, const std::string& prompt) const;
  std::vector<int64_t> prompted_tokens(const std::string& query, const std::string& document,
                                       const std::string& prompt) const;
  // The tokens that stand behind every document; of two texts alone 0.
  size_t tail(const std::string& prompt) const;
  std::vector<double> scores_of(const std::vector<std::vector<int64_t>>& batch) const;

  TextModel text_;
  Form form_ = Form::kFlat;
  int64_t yes_ = -1;
  std::optional<int64_t> no_, longest_;
  std::string prompt_, variables_ = "{}";
  size_t tail_ = 0;  // of prompt_
  bool add_generation_prompt_ = false;
};

}  // namespace transom
