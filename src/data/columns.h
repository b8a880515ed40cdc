// SPDX-License-Identifier: Apache-2.0
// Which column is what, found as the Transformers example scripts find it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/dataset.h"
#include "transom/training_arguments.h"

namespace transom {

// The two keys of a GLUE task ("mrpc": sentence1, sentence2); the second is empty for single sentences. Nothing for
// other names.
std::optional<std::pair<std::string, std::string>> glue_keys(std::string_view task);

// Ends an error about a line of a CSV file that was not split: which --delimiter it may want. Empty where none is seen.
std::string delimiter_hint(std::string_view line);

// How the files that these arguments name are read.
DatasetOptions dataset_options(const ScriptArguments& arguments);

// The column of this name; an error that names `argument` and the columns that there are where it is not.
size_t need_column(const Dataset& data, std::string_view name, std::string_view argument);

// run_glue, run_classification: the label, and one or two columns of text (with text_column_names, any number, to be
// joined by text_column_delimiter).
struct ClassificationColumns {
  std::vector<size_t> text;
  std::optional<size_t> label;  // nothing in a file without labels
  bool joined = false;
};
ClassificationColumns classification_columns(const Dataset& data, const ScriptArguments& arguments);
// The label's column; an error that says how to name it where there is none.
size_t need_label(const ClassificationColumns& columns, const Dataset& data);

// run_ner: lists of tokens and of their tags.
struct TokenColumns {
  size_t tokens = 0;
  std::optional<size_t> tags;
};
// A file that has no lists (CSV) gives them as text: words with spaces between, or a list as Python or JSON writes it.
// The same rows with lists in both columns.
Dataset with_token_lists(const Dataset& data, const ScriptArguments& arguments);
TokenColumns token_columns(const Dataset& data, const ScriptArguments& arguments);

// run_qa. Without `answer_text`, rows can only be predicted.
struct AnswerColumns {
  size_t question = 0, context = 0;
  std::optional<size_t> id, answer_text, answer_start;
};
AnswerColumns answer_columns(const Dataset& data);

// run_swag: the context, the beginning of its endings (sent1, sent2), and ending0, ending1 ...
struct ChoiceColumns {
  size_t context = 0, beginning = 0;
  std::vector<size_t> endings;
  std::optional<size_t> label;
};
ChoiceColumns choice_columns(const Dataset& data);

// run_mlm, run_clm: `text`, or the first column.
size_t text_column(const Dataset& data, const ScriptArguments& arguments);

// Whether rows carry `input_ids` and so are tokenised already.
bool is_tokenised(const Dataset& data);

enum class LabelKind { kClasses, kMultiLabel, kRegression };

// Refuses the label of a row that is not there: an empty cell, null, nan.
void require_label(const Value& value, std::string_view where);

// The labels of a column: regression for fractions, several at once for lists, else classes; their names sorted
// (numbers by value).
class Labels {
 public:
  // Errors name the row and the column of a label that is missing.
  static Labels of(const Dataset& data, size_t column, std::optional<bool> regression = {});
  Labels(LabelKind kind, std::vector<std::string> names);

  LabelKind kind() const { return kind_; }
  const std::vector<std::string>& names() const { return names_; }
  // The id of a label; an error that names `where` for one that training did not have.
  int64_t id(const std::string& name, std::string_view where) const;
  std::vector<int64_t> ids(const Value& value, std::string_view where) const;  // of a list of tags
  int64_t id(const Value& value, std::string_view where) const;
  // One number a class: 1 for those in the list.
  std::vector<float> indicators(const Value& value, std::string_view where) const;
  // The same labels in the order of a checkpoint's id2label, if those are the same names.
  bool reorder(const std::vector<std::string>& names);

 private:
  LabelKind kind_;
  std::vector<std::string> names_;
};

// A value as the name of a label: text as it is, numbers as Python writes them, truth values as True and False.
std::string label_name(const Value& value);

}  // namespace transom
