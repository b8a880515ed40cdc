// SPDX-License-Identifier: Apache-2.0
// Finds the type of a column from its values, as `datasets.load_dataset` does, and brings values to it.
#pragma once

#include <string>

#include "transom/dataset.h"

namespace transom {

class ColumnTypeFinder {
 public:
  // `untyped`: strings may stand for numbers and truth values, as in CSV.
  explicit ColumnTypeFinder(bool untyped) : untyped_(untyped) {}
  // Takes in one more value; `where` names it in the error for values that no one type holds.
  void add(const Value& value, const std::string& where);
  ColumnType type() const;
  // Whether the column is kFloat only because some of its whole numbers are missing.
  bool whole_numbers() const;

 private:
  void add_text(const std::string& text);
  bool untyped_;
  ColumnType type_ = ColumnType::kNull;
  bool has_empty_ = false;  // an empty field: whole numbers then become fractions with NaN, as in pandas
  bool may_be_int_ = true, may_be_float_ = true, may_be_bool_ = true;  // of untyped strings
};

// `value` as a value of a column of `type`; a float column has NaN where nothing stands.
Value to_column_type(Value value, ColumnType type);

}  // namespace transom
