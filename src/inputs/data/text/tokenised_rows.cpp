// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/tokenised_rows.h"

#include "base/error.h"
#include "inputs/data/columns.h"

namespace transom {

TokenisedRows::TokenisedRows(Dataset data, bool separate_labels)
    : data_(std::move(data)), separate_labels_(separate_labels) {
  const auto input_ids = data_.find("input_ids");
  require(input_ids && data_.columns()[*input_ids].type == ColumnType::kInts,
          "{}: expected a column input_ids with lists of whole numbers", data_.where(0));
  input_ids_ = *input_ids;
  label_ = data_.find("labels") ? data_.find("labels") : data_.find("label");
  if (label_ && data_.columns()[*label_].type == ColumnType::kInts) label_.reset();
  for (size_t i = 0; i < data_.columns().size(); ++i)
    if (data_.columns()[i].type == ColumnType::kInts) sequences_.push_back(i);
  if (!label_) return;
  const ColumnType type = data_.columns()[*label_].type;
  require(type == ColumnType::kInt || type == ColumnType::kBool || type == ColumnType::kFloat ||
              type == ColumnType::kFloats,
          "{}, column '{}': expected numbers beside input_ids, found {}", data_.where(0), data_.columns()[*label_].name,
          column_type_name(type));
}

Features TokenisedRows::row(int64_t index) const {
  Row row = data_.row(index);
  Features features;
  for (const size_t column : sequences_) {
    const std::string& name = data_.columns()[column].name;
    auto* list = std::get_if<std::vector<int64_t>>(&row[column]);
    if (!list) fail("{}, column '{}': expected a list, found nothing", data_.where(index), name);
    features.sequences[name == "label" ? "labels" : name] = std::move(*list);
  }
  const size_t length = features.sequences.at("input_ids").size();
  for (const auto& [name, sequence] : features.sequences)
    if (!separate_labels_ || (name != "labels" && !name.starts_with("decoder_")))
      require(sequence.size() == length, "{}, column '{}': expected {} numbers as in input_ids, found {}",
              data_.where(index), name, length, sequence.size());
  if (!label_) return features;
  const Value& label = row[*label_];
  require_label(label, fmt::format("{}, column '{}'", data_.where(index), data_.columns()[*label_].name));
  if (const auto* id = std::get_if<int64_t>(&label)) features.label = *id;
  else if (const auto* truth = std::get_if<bool>(&label)) features.label = *truth ? 1 : 0;
  else if (const auto* number = std::get_if<double>(&label)) features.label_values = {static_cast<float>(*number)};
  else if (const auto* list = std::get_if<std::vector<double>>(&label))
    features.label_values.assign(list->begin(), list->end());
  return features;
}

std::vector<int64_t> TokenisedRows::lengths(const std::string& length_column) const {
  const auto column = data_.find(length_column);
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) {
    const Row row = data_.row(i);
    const auto* length = column ? std::get_if<int64_t>(&row[*column]) : nullptr;
    const auto* tokens = std::get_if<std::vector<int64_t>>(&row[input_ids_]);
    lengths.push_back(length ? *length : tokens ? static_cast<int64_t>(tokens->size()) : 0);
  }
  return lengths;
}

}  // namespace transom
