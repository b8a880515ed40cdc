// SPDX-License-Identifier: Apache-2.0
// Questions, their contexts and answers, from the shapes in which data sets hold them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inputs/data/columns.h"
#include "inputs/data/text/qa_postprocess.h"
#include "transom/dataset.h"

namespace transom {

struct Question {
  std::string id, question, context;
  std::vector<std::string> answers;  // texts; none where the question has no answer
  std::optional<TextRange> first;    // where the first answer stands, in characters of the context
};

class Questions {
 public:
  // Flat rows with question, context and answers, or columns of these names (an object of the lists text and
  // answer_start, or a list of objects with one each; in CSV as JSON text), or the articles of SQuAD's own files, whose
  // paragraphs hold questions. Errors name the row and the column.
  explicit Questions(const Dataset& data, const QuestionColumns& names = {});

  int64_t size() const { return data_.size(); }
  // Whether there is anything to train on or to measure with.
  bool has_answers() const { return answer_text_.has_value(); }
  Question operator[](int64_t row) const;
  std::string where(int64_t row) const { return data_.where(row); }
  Questions first(int64_t rows) const;
  // Whether rows are those of SQuAD's own files or flat ones of questions.
  static bool fits(const Dataset& data, const QuestionColumns& names = {});

 private:
  Dataset data_;
  size_t question_, context_;
  std::optional<size_t> id_, answer_text_, answer_start_;
};

}  // namespace transom
