// SPDX-License-Identifier: Apache-2.0
// Cells of rows that hold chats, as JSON has them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"

namespace transom {

// Null where nothing stands.
Json json_of(const Value& value, const std::string& where);
// A cell; lists of messages may stand in it as text of JSON (in CSV files).
Json json_of_cell(const Dataset& data, const Row& row, size_t column, int64_t index);
// Of a CSV file these columns are text, whatever they look like.
Dataset with_texts_as_written(Dataset data, std::initializer_list<std::string_view> columns);
// The text of a column that a file may have; empty where there is none.
std::string text_beside(const Dataset& data, const Row& row, std::string_view column, int64_t index);

// What a chat template is given beside the messages: the columns tools and chat_template_kwargs.
class TemplateColumns {
 public:
  explicit TemplateColumns(const Dataset& data);
  // JSON, as ChatOptions takes them; empty: none.
  std::string tools(const Row& row, const std::string& where) const;
  std::string variables(const Row& row, const std::string& where) const;

 private:
  std::optional<size_t> tools_;
  std::vector<std::pair<size_t, std::string>> variables_;
};

}  // namespace transom
