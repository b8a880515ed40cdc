// SPDX-License-Identifier: Apache-2.0
// What a Trainer reads: rows of features, and batches of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace transom {

constexpr int64_t kIgnoredLabel = -100;  // no loss where a label is this

// One row for a model: sequences by the names of the model's arguments (input_ids, attention_mask, token_type_ids,
// labels ...), and what the whole row has: further numbers by name (start_positions), and its label.
struct Features {
  std::map<std::string, std::vector<int64_t>> sequences;
  std::map<std::string, int64_t> numbers;
  std::optional<int64_t> label;     // a class
  std::vector<float> label_values;  // one number for regression, one a class for multi-label
};

// Rows of one length; `values` has shape [rows, length], row-major.
struct PaddedRows {
  int64_t rows = 0, length = 0;
  std::vector<int64_t> values;
  bool operator==(const PaddedRows&) const = default;
};

// Numbers of any shape, row-major: pixel_values [rows, 3, height, width].
struct FloatRows {
  std::vector<int64_t> shape;  // the first axis is the rows
  std::vector<float> values;
};

// Rows together, by the names of the model's arguments. All parts have the same number of rows; a part that a model
// does not take is left empty.
struct Batch {
  std::map<std::string, PaddedRows> sequences;
  std::map<std::string, std::vector<int64_t>> numbers;  // (rows)
  std::map<std::string, FloatRows> arrays;
  int64_t choices = 0;              // of multiple choice: this many sequences in turn belong to one row
  std::vector<int64_t> labels;      // a class for each row; labels of tokens are sequences
  std::vector<float> label_values;  // [rows, values of a row]: regression, multi-label
};

struct PaddingOptions {
  int64_t pad_token_id = 0;
  int64_t pad_token_type_id = 0;
  bool left = false;                  // pad in front
  std::optional<int64_t> max_length;  // to this length always; longer rows are an error
  std::optional<int64_t> multiple_of;
  std::function<int64_t(int64_t longest)> bucket;  // else to what this says, where it is given
  // Of encoder-decoders: labels, and what else the decoder reads, are padded among themselves.
  bool separate_labels = false;
  std::optional<int64_t> max_label_length;
  int64_t label_fill = kIgnoredLabel;
};

// Pads every sequence: input_ids with the pad token, token_type_ids with its type, labels with label_fill, all others
// with 0. Adds the attention mask where rows have none. All rows must have the same sequences.
Batch collate(std::span<const Features> rows, const PaddingOptions& options);

}  // namespace transom
