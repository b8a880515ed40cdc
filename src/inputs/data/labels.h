// SPDX-License-Identifier: Apache-2.0
// The labels of a column: what they are, and which number each has.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transom/dataset.h"

namespace transom {

// kIndicators: several labels at once, each row with a number from 0 to 1 for each class.
enum class LabelKind { kClasses, kMultiLabel, kIndicators, kRegression };

// Refuses the label of a row that is not there: an empty cell, an empty text, null, nan.
void require_label(const Value& value, std::string_view where);

// The labels of a column: regression for fractions, several at once for lists, else classes; their names sorted
// (numbers by value).
class Labels {
 public:
  // Errors name the row and the column of a label that is missing or of a wrong type.
  static Labels of(const Dataset& data, size_t column, std::optional<bool> regression = {});
  Labels(LabelKind kind, std::vector<std::string> names);

  LabelKind kind() const { return kind_; }
  // Of the classes, by their ids. kIndicators have the numbers of their columns.
  const std::vector<std::string>& names() const { return names_; }
  // How many labels the files have: fewer than the classes of a model, perhaps.
  size_t found() const { return found_; }
  // The same labels as classes of a model: `ids` has the class of each name.
  Labels as_classes(std::vector<std::string> classes, const std::vector<int64_t>& ids) const;

  // The id of a label; an error that names `where` for one that training did not have.
  int64_t id(const std::string& name, std::string_view where) const;
  std::vector<int64_t> ids(const Value& value, std::string_view where) const;  // of a list of tags
  int64_t id(const Value& value, std::string_view where) const;
  // One number a class: 1 for those in the list, or the numbers of the list.
  std::vector<float> indicators(const Value& value, std::string_view where) const;

 private:
  LabelKind kind_;
  std::vector<std::string> names_;
  size_t found_;
  std::map<std::string, int64_t, std::less<>> ids_;
};

// A value as the name of a label: text as it is, numbers as Python writes them, truth values as True and False.
std::string label_name(const Value& value);

// Whether lists of whole numbers look like a column a class ([0, 1, 1]): they are read as lists of classes.
bool look_like_indicators(const Dataset& data, size_t column);

}  // namespace transom
