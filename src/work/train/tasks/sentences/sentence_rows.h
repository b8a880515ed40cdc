// SPDX-License-Identifier: Apache-2.0
// Rows of texts and labels as sentence-transformers takes them: the columns are texts in the order of the file, but for
// one that is called label, labels, score or scores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transom/dataset.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {

// What a row is to have.
struct RowForm {
  std::string loss;  // for errors
  size_t least_columns = 1, most_columns = 64;
  SentenceLabels labels = SentenceLabels::kNone;
  int64_t classes = 0;  // of kClass; 0: not known
  int64_t width = 0;    // of kVector; 0: not known
};

// Rows may be read from several threads.
class SentenceRows {
 public:
  // Refuses columns that the loss does not take, by their names.
  SentenceRows(Dataset data, RowForm form);

  const Dataset& data() const { return data_; }
  size_t columns() const { return texts_.size(); }
  const std::string& column_name(size_t i) const { return data_.columns()[texts_[i]].name; }
  bool has_labels() const { return label_.has_value(); }
  bool has_classes() const { return has_labels() && form_.labels == SentenceLabels::kClass; }
  // "texts: anchor, positive; label: score", for the line that says what a run reads.
  std::string reads() const;

  struct SentenceRow {
    std::vector<std::string> texts;
    std::vector<float> labels;  // empty where there are none
  };
  // Throws, with the file and the row, where a text is missing, a label is not what the loss takes, or a negative is
  // the positive.
  SentenceRow row(int64_t index) const;

 private:
  std::vector<float> label_of(const Row& row, const std::string& where) const;

  Dataset data_;
  RowForm form_;
  std::vector<size_t> texts_;
  std::optional<size_t> label_;
};

}  // namespace transom
