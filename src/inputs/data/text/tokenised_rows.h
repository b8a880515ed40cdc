// SPDX-License-Identifier: Apache-2.0
// Rows that are tokenised already: they carry input_ids, and perhaps labels and further sequences.
#pragma once

#include "inputs/data/text/padding.h"
#include "transom/dataset.h"

namespace transom {

class TokenisedRows {
 public:
  // Lists of whole numbers become sequences by their names. `labels` (or `label`): a list is a sequence too, a whole
  // number a class, a fraction or a list of fractions the values of regression or of several labels. Columns of other
  // types are left out. Errors name the row for lists of another length than input_ids.
  // With `separate_labels`, labels and what a decoder reads may have a length of their own.
  explicit TokenisedRows(Dataset data, bool separate_labels = false);

  int64_t size() const { return data_.size(); }
  Features row(int64_t index) const;
  // Lengths for group_by_length: of the column of that name where there is one, else of input_ids.
  std::vector<int64_t> lengths(const std::string& length_column) const;

 private:
  Dataset data_;
  bool separate_labels_;
  size_t input_ids_;
  std::vector<size_t> sequences_;
  std::optional<size_t> label_;
};

}  // namespace transom
