// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/padding.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

int64_t padded_length(int64_t longest, const PaddingOptions& options) {
  int64_t length = longest;
  if (options.max_length) {
    require(longest <= *options.max_length, "padding: expected rows of at most {} tokens, found one of {}",
            *options.max_length, longest);
    length = *options.max_length;
  }
  if (options.multiple_of) length = (length + *options.multiple_of - 1) / *options.multiple_of * *options.multiple_of;
  else if (options.bucket && !options.max_length) length = options.bucket(longest);
  return length;
}

PaddedRows pad(std::span<const std::vector<int64_t>* const> rows, int64_t length, int64_t fill, bool left) {
  PaddedRows result{static_cast<int64_t>(rows.size()), length, {}};
  result.values.assign(static_cast<size_t>(result.rows * length), fill);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<int64_t>& row = *rows[i];
    const int64_t gap = length - static_cast<int64_t>(row.size());
    require(gap >= 0, "padding: expected rows of at most {} tokens, found one of {}", length, row.size());
    std::copy(row.begin(), row.end(), result.values.begin() + static_cast<int64_t>(i) * length + (left ? gap : 0));
  }
  return result;
}

Batch collate(std::span<const Features> rows, const PaddingOptions& options) {
  Batch batch;
  if (rows.empty()) return batch;
  const auto of_decoder = [&](const std::string& name) {
    return options.separate_labels && (name == "labels" || name.starts_with("decoder_"));
  };
  size_t longest = 0, longest_target = 0;
  for (const Features& row : rows) {
    require(row.sequences.contains("input_ids"), "batch: expected input_ids in every row");
    for (const auto& [name, sequence] : row.sequences) {
      size_t& place = of_decoder(name) ? longest_target : longest;
      place = std::max(place, sequence.size());
    }
  }
  PaddingOptions of_targets = options;
  of_targets.max_length = options.max_label_length;
  const int64_t source_length = padded_length(static_cast<int64_t>(longest), options),
                target_length = padded_length(static_cast<int64_t>(longest_target), of_targets);

  std::vector<const std::vector<int64_t>*> sequences(rows.size());
  for (const auto& [name, first] : rows[0].sequences) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto found = rows[i].sequences.find(name);
      if (found == rows[i].sequences.end())
        fail("batch: expected '{}' in every row, found none in row {}", name, i + 1);
      sequences[i] = &found->second;
    }
    const int64_t length = of_decoder(name) ? target_length : source_length;
    const bool are_tokens = name == "input_ids" || name == "decoder_input_ids";
    const int64_t fill = are_tokens                 ? options.pad_token_id
                         : name == "token_type_ids" ? options.pad_token_type_id
                         : name == "labels"         ? options.label_fill
                                                    : 0;
    batch.sequences[name] = pad(sequences, length, fill, options.left);
  }
  if (!batch.sequences.contains("attention_mask")) {
    std::vector<std::vector<int64_t>> ones;
    for (const Features& row : rows) ones.emplace_back(row.sequences.at("input_ids").size(), 1);
    for (size_t i = 0; i < rows.size(); ++i) sequences[i] = &ones[i];
    batch.sequences["attention_mask"] = pad(sequences, source_length, 0, options.left);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    require(rows[i].label.has_value() == rows[0].label.has_value() &&
                rows[i].label_values.size() == rows[0].label_values.size(),
            "batch: expected labels of one kind, found another in row {}", i + 1);
    require(rows[i].numbers.size() == rows[0].numbers.size(),
            "batch: expected the same numbers in every row, found others in row {}", i + 1);
    for (const auto& [name, number] : rows[i].numbers) batch.numbers[name].push_back(number);
    if (rows[i].label) batch.labels.push_back(*rows[i].label);
    batch.label_values.insert(batch.label_values.end(), rows[i].label_values.begin(), rows[i].label_values.end());
  }
  return batch;
}

bool fill_up(Batch& batch, int64_t rows) {
  if (batch.choices > 0 || !batch.numbers.empty() || !batch.label_values.empty()) return false;
  for (const auto& [name, values] : batch.arrays)
    if (name != "pixel_values" || !batch.sequences.empty() || values.shape[0] < 1 || values.shape[0] > rows)
      return false;
  for (const auto& [name, sequence] : batch.sequences)
    if (sequence.rows < 1 || sequence.rows > rows) return false;
  const auto repeat_last = [&](auto& values, int64_t held) {
    const auto width = static_cast<ptrdiff_t>(values.size()) / held;
    for (int64_t row = held; row < rows; ++row) values.insert(values.end(), values.end() - width, values.end());
  };
  for (auto& [name, values] : batch.arrays) {
    values.values.reserve(values.values.size() / static_cast<size_t>(values.shape[0]) * static_cast<size_t>(rows));
    repeat_last(values.values, values.shape[0]);
    values.shape[0] = rows;
  }
  for (auto& [name, sequence] : batch.sequences) {
    if (name == "labels") sequence.values.resize(static_cast<size_t>(rows * sequence.length), kIgnoredLabel);
    else
      sequence.values.reserve(static_cast<size_t>(rows * sequence.length)), repeat_last(sequence.values, sequence.rows);
    sequence.rows = rows;
  }
  if (!batch.labels.empty()) batch.labels.resize(static_cast<size_t>(rows), kIgnoredLabel);
  return true;
}

}  // namespace transom
