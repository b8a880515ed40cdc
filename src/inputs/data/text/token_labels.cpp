// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/token_labels.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/data/text/padding.h"

namespace transom {

std::vector<int64_t> align_labels(std::span<const int64_t> word_ids, std::span<const int64_t> word_labels,
                                  bool label_all, const std::vector<std::string>& names) {
  std::vector<int64_t> inside(names.size());  // the label of a word's further tokens
  for (size_t i = 0; i < names.size(); ++i) {
    inside[i] = static_cast<int64_t>(i);
    if (!names[i].starts_with("B-")) continue;
    const auto found = std::find(names.begin(), names.end(), "I-" + names[i].substr(2));
    if (found != names.end()) inside[i] = found - names.begin();
  }
  std::vector<int64_t> labels;
  labels.reserve(word_ids.size());
  int64_t previous = -1;
  for (const int64_t word : word_ids) {
    require(word < static_cast<int64_t>(word_labels.size()), "token labels: expected a word below {}, found {}",
            word_labels.size(), word);
    if (word < 0) {
      labels.push_back(kIgnoredLabel);
    } else {
      const int64_t label = word_labels[static_cast<size_t>(word)];
      require(label >= 0 && label < static_cast<int64_t>(names.size()),
              "token labels: expected a label below {}, found {}", names.size(), label);
      labels.push_back(word != previous ? label : label_all ? inside[static_cast<size_t>(label)] : kIgnoredLabel);
    }
    previous = word;
  }
  return labels;
}

TagLists named_tags(std::span<const std::vector<int64_t>> labels, std::span<const std::vector<int64_t>> predictions,
                    const std::vector<std::string>& names) {
  require(labels.size() == predictions.size(), "tags: expected the predictions of {} rows, found {}", labels.size(),
          predictions.size());
  TagLists lists;
  for (size_t row = 0; row < labels.size(); ++row) {
    auto& label_names = lists.labels.emplace_back();
    auto& prediction_names = lists.predictions.emplace_back();
    require(labels[row].size() <= predictions[row].size(), "tags: row {}: expected {} predictions, found {}", row + 1,
            labels[row].size(), predictions[row].size());
    for (size_t i = 0; i < labels[row].size(); ++i) {
      if (labels[row][i] == kIgnoredLabel) continue;
      label_names.push_back(names.at(static_cast<size_t>(labels[row][i])));
      prediction_names.push_back(names.at(static_cast<size_t>(predictions[row][i])));
    }
  }
  return lists;
}

}  // namespace transom
