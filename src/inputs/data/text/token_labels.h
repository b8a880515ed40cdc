// SPDX-License-Identifier: Apache-2.0
// Labels of words brought to tokens, and back (run_ner).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace transom {

// One label a token from one a word: the first token of a word has the word's label, others kIgnoredLabel, or with
// `label_all` the label of a word's inside ("B-LOC" goes on as "I-LOC" where there is one). `word_ids` are -1 at
// special tokens; `names` are the labels' names.
std::vector<int64_t> align_labels(std::span<const int64_t> word_ids, std::span<const int64_t> word_labels,
                                  bool label_all, const std::vector<std::string>& names);

// The names of labels and predictions where there is a label, for the metrics: one list a row.
struct TagLists {
  std::vector<std::vector<std::string>> labels, predictions;
};
TagLists named_tags(std::span<const std::vector<int64_t>> labels, std::span<const std::vector<int64_t>> predictions,
                    const std::vector<std::string>& names);

}  // namespace transom
