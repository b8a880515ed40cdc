// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gguf/gguf_values.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/gguf/gguf_family.h"

namespace transom {
namespace {

std::vector<float> turned(const float* numbers, size_t rows, size_t columns) {
  std::vector<float> all(rows * columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) all[j * rows + i] = numbers[i * columns + j];
  return all;
}

// Row i of the result is row places[i].
std::vector<float> chosen_rows(const std::vector<float>& numbers, const std::vector<int64_t>& places, int64_t rows,
                               const std::string& name) {
  if (rows < 1) fail("{}: expected rows, found none", name);
  const size_t row = numbers.size() / static_cast<size_t>(rows);
  std::vector<float> chosen(row * places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0 || places[i] >= rows) fail("{}: expected more than {} rows, found {}", name, places[i], rows);
    std::copy_n(numbers.data() + static_cast<size_t>(places[i]) * row, row, chosen.data() + i * row);
  }
  return chosen;
}

std::vector<float> chosen_columns(const std::vector<float>& numbers, const std::vector<int64_t>& places,
                                  const std::string& name) {
  const size_t columns = places.size();
  if (columns == 0 || numbers.size() % columns != 0) fail("{}: its rows are no {} numbers", name, columns);
  std::vector<float> chosen(numbers.size());
  for (size_t i = 0; i < numbers.size(); i += columns)
    for (size_t c = 0; c < columns; ++c) chosen[i + c] = numbers[i + static_cast<size_t>(places[c])];
  return chosen;
}

// Rows whose place in GGUF follows from heads.
std::vector<float> rows_of_heads(const GgufName& rule, const std::string& name, std::vector<float> numbers,
                                 const std::vector<int64_t>& shape, const Json& config) {
  const int64_t heads = config.value("num_attention_heads", config.value("n_head", int64_t{0})),
                key_heads = config.contains("num_key_value_heads") && config["num_key_value_heads"].is_number()
                                ? config["num_key_value_heads"].get<int64_t>()
                                : heads;
  const std::vector<int64_t> places =
      gguf_places_of_rows(rule.change, shape.empty() ? 1 : shape[0], heads, key_heads, name);
  if (places.empty()) return numbers;
  std::vector<int64_t> from(places.size());
  for (size_t i = 0; i < places.size(); ++i) from[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
  return chosen_rows(numbers, from, shape[0], name);
}

}  // namespace

std::vector<int64_t> gguf_shape(const GgufName& rule, const std::string& name, std::vector<int64_t> shape,
                                const Json& config) {
  if (shape.empty()) return shape;
  if (rule.rows) shape[0] = static_cast<int64_t>(rule.rows(config).size());
  const int64_t parts = rule.parts ? rule.parts(config) : 1;
  if (parts < 1 || shape[0] % parts != 0) fail("{}: {} rows are no {} equal parts", name, shape[0], parts);
  switch (rule.change) {
    case GgufChange::kTransposed:
      if (shape.size() == 2) std::swap(shape[0], shape[1]);
      break;
    case GgufChange::kRow:
      if (shape.size() == 2) shape.erase(shape.begin());
      break;
    case GgufChange::kSqueezed:
      if (shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
      break;
    case GgufChange::kRateColumn:
    case GgufChange::kColumn:
      if (shape.size() == 1) shape.push_back(1);
      break;
    case GgufChange::kGroups:
      if (shape.size() == 1) shape = {parts, shape[0] / parts};
      break;
    case GgufChange::kHeads:
      if (shape.size() == 2) shape = {parts, shape[0] / parts, shape[1]};
      break;
    case GgufChange::kHeadsTurned:
      if (shape.size() == 2) shape = {parts, shape[1], shape[0] / parts};
      break;
    default:
      break;
  }
  return shape;
}

std::vector<float> gguf_numbers(const GgufName& rule, const std::string& name, std::vector<float> numbers,
                                const std::vector<int64_t>& shape, const Json& config) {
  if (rule.rows) numbers = chosen_rows(numbers, rule.rows(config), shape.empty() ? 1 : shape[0], name);
  if (rule.columns && shape.size() == 2) numbers = chosen_columns(numbers, rule.columns(config), name);
  switch (rule.change) {
    case GgufChange::kOneMore:
      if (!name.ends_with(".bias"))
        for (float& number : numbers) number += 1;
      return numbers;
    case GgufChange::kRates:
    case GgufChange::kRateColumn:
      for (float& number : numbers) number = static_cast<float>(-std::exp(static_cast<double>(number)));
      return numbers;
    case GgufChange::kTransposed:
      if (shape.size() != 2) return numbers;
      return turned(numbers.data(), static_cast<size_t>(shape[0]), static_cast<size_t>(shape[1]));
    case GgufChange::kHeadsTurned: {
      const auto parts = static_cast<size_t>(rule.parts(config)), columns = static_cast<size_t>(shape[1]),
                 head = numbers.size() / parts;
      std::vector<float> all;
      for (size_t p = 0; p < parts; ++p) {
        const std::vector<float> one = turned(numbers.data() + p * head, head / columns, columns);
        all.insert(all.end(), one.begin(), one.end());
      }
      return all;
    }
    default:
      return rows_of_heads(rule, name, std::move(numbers), shape, config);
  }
}

}  // namespace transom
