// SPDX-License-Identifier: Apache-2.0
// From rows of texts to the batches of a run on sentences.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transom/tokenizer.h"
#include "transom/trainer.h"
#include "work/train/tasks/sentences/batch_samplers.h"
#include "work/train/tasks/sentences/sentence_rows.h"

namespace transom {

// What texts begin with: by the name of a set and of a column.
class SentencePrompts {
 public:
  // `text`: --prompts. Sets have names where there are several.
  SentencePrompts(const std::optional<std::string>& text, const std::vector<std::string>& sets);
  const std::string& of(const std::string& set, const std::string& column) const;
  // Refuses names of columns that no set has.
  void expect_columns(const std::vector<std::string>& columns) const;

 private:
  std::string everywhere_;
  std::map<std::string, std::string> by_column_, by_set_;
  std::map<std::string, std::map<std::string, std::string>> by_set_and_column_;
};

struct SentenceTokens {
  Tokenizer tokenizer;
  std::optional<int64_t> max_length;
  std::optional<int64_t> multiple_of;
  bool include_prompt = true;  // in the pooling
  int64_t vocabulary = 0;      // rows of the model's table; 0: not known
};

// Rows of one set, tokenised.
class SentenceSet {
 public:
  SentenceSet(std::string name, const SentenceRows& rows, const SentenceTokens& tokens, const SentencePrompts& prompts);

  int64_t rows() const { return static_cast<int64_t>(labels_.size()); }
  size_t columns() const { return columns_.size(); }
  // The rows `indices`; names of tensors are those of sentence_input() for this number of a set.
  Batch batch(size_t number, const std::vector<int64_t>& indices) const;
  // For samplers: numbers of the texts of a row, equal where texts are.
  std::vector<uint64_t> texts_of(int64_t row) const;
  std::vector<int64_t> classes() const;
  const std::vector<std::vector<float>>& labels() const { return labels_; }
  // The numbers of a column's texts, from 0 in the order in which they come first.
  std::vector<int64_t> distinct_texts(size_t column) const;

 private:
  struct Column {
    std::vector<std::vector<int64_t>> ids;
    std::vector<uint64_t> texts;
    int64_t left_out = 0;  // tokens of the prompt
  };
  SentenceTokens tokens_;
  bool whole_labels_ = false;  // labels are classes
  std::vector<Column> columns_;
  std::vector<std::vector<float>> labels_;
};

TrainingData training_data(std::shared_ptr<const std::vector<SentenceSet>> sets, const BatchSampling& sampling);

}  // namespace transom
