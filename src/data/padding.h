// SPDX-License-Identifier: Apache-2.0
// Rows of tokens and their batches, padded to one length.
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

// (rows, length), row by row.
struct PaddedRows {
  int64_t rows = 0, length = 0;
  std::vector<int64_t> values;
  bool operator==(const PaddedRows&) const = default;
};

// Numbers of any shape, its first axis the rows: pixel values.
struct FloatRows {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Batch {
  std::map<std::string, PaddedRows> sequences;
  std::map<std::string, std::vector<int64_t>> numbers;  // (rows)
  std::map<std::string, FloatRows> arrays;
  int64_t choices = 0;              // multiple choice: so many sequences in turn belong to one row
  std::vector<int64_t> labels;      // (rows)
  std::vector<float> label_values;  // (rows, values of a row)
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

// The length that rows of at most `longest` tokens are padded to.
int64_t padded_length(int64_t longest, const PaddingOptions& options);

PaddedRows pad(std::span<const std::vector<int64_t>* const> rows, int64_t length, int64_t fill, bool left);

// Pads every sequence: input_ids with the pad token, token_type_ids with its type, labels with label_fill, all others
// with 0. Adds the attention mask where rows have none. All rows must have the same sequences.
Batch collate(std::span<const Features> rows, const PaddingOptions& options);

// Fills the batch up to so many rows with copies of its last one, whose labels do not count. False, and nothing done,
// where they would be seen all the same: labels that are numbers, positions, rows that are compared with each other.
bool fill_up(Batch& batch, int64_t rows);

}  // namespace transom
