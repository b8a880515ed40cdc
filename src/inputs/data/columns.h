// SPDX-License-Identifier: Apache-2.0
// Which column is what, found as the Transformers example scripts find it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inputs/data/labels.h"
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

std::vector<std::string> column_names(const Dataset& data);

// The column of this name; an error that names `argument` and the columns that there are where it is not.
size_t need_column(const Dataset& data, std::string_view name, std::string_view argument);

// The text of row `index`, whose values are `row`; throws, with the row and the column, where there is none.
std::string text_of(const Dataset& data, int64_t index, const Row& row, size_t column);

// run_glue, run_classification: the label, and one or two columns of text (with text_column_names, any number, to be
// joined by text_column_delimiter). Columns are those of the arguments, of a known pair (sentence1 and sentence2, those
// of GLUE's tasks), or the one or two of text that there are; of more it throws.
struct ClassificationColumns {
  std::vector<size_t> text;
  std::optional<size_t> label;  // nothing in a file without labels
  bool joined = false;
};
ClassificationColumns classification_columns(const Dataset& data, const ScriptArguments& arguments);
// `data` with its columns of text as text, and where the columns of `names`, another file of the same run, stand in it.
ClassificationColumns same_columns(const ClassificationColumns& columns, const Dataset& names, const Dataset& data);
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

// run_qa: question, context and answers, or those of the arguments. Without `answer_text`, rows can only be predicted.
struct QuestionColumns {
  std::string question = "question", context = "context", answers = "answers";
};
QuestionColumns question_columns(const ScriptArguments& arguments);
struct AnswerColumns {
  size_t question = 0, context = 0;
  std::optional<size_t> id, answer_text, answer_start;
};
AnswerColumns answer_columns(const Dataset& data, const QuestionColumns& names = {});

// run_swag: the context, the beginning of its endings (sent1, sent2), and ending0, ending1 ...
struct ChoiceColumns {
  size_t context = 0, beginning = 0;
  std::vector<size_t> endings;
  std::optional<size_t> label;
};
ChoiceColumns choice_columns(const Dataset& data);

// run_mlm, run_clm: `text`, or the only column of text; of several it throws.
size_t text_column(const Dataset& data, const ScriptArguments& arguments);

// Whether rows carry `input_ids` and so are tokenised already.
bool is_tokenised(const Dataset& data);

}  // namespace transom
