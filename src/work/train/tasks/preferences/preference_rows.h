// SPDX-License-Identifier: Apache-2.0
// Rows of files that hold a better and a worse answer, or an answer and whether it is good, by TRL's names of columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"
#include "work/train/tasks/chats/row_values.h"

namespace transom {

// Texts, or lists of messages: all parts are of one kind. Where `prompt` is null the answers begin with it.
struct PreferenceRow {
  Json prompt, chosen, rejected;
  std::optional<double> margin;  // by how much the better one is to be better
  std::string tools, variables;  // JSON, as ChatOptions takes them; empty: none
  bool is_chat() const { return chosen.is_array(); }
};

// A prompt, an answer, and whether it is good.
struct AnswerRow {
  Json prompt, completion;
  bool good = false;
  std::string tools, variables;
  bool is_chat() const { return completion.is_array(); }
};

// Columns chosen and rejected, and with them prompt, margin, tools. A cheap handle; rows may be read from several
// threads.
class PreferenceRows {
 public:
  // `finds_prompts`: where there is no prompt, it is what both answers begin with; else they are left whole.
  PreferenceRows(Dataset data, bool finds_prompts);

  const Dataset& data() const { return data_; }
  bool has_margins() const { return margin_.has_value(); }
  // "preferences: columns prompt, chosen and rejected", for the line that says what a run reads.
  std::string reads() const;
  // Throws, with the file and the row, what no trainer should learn: equal answers, an empty better one, a message
  // without role or content, a role that nobody knows.
  PreferenceRow row(int64_t index) const;

 private:
  Dataset data_;
  bool finds_prompts_;
  std::optional<size_t> prompt_, margin_;
  size_t chosen_ = 0, rejected_ = 0;
  TemplateColumns template_columns_;
};

// Columns prompt, completion and label; or those of PreferenceRows, each of whose rows is two answers: in turn the
// better ones of a thousand rows, and the worse ones of the same.
class AnswerRows {
 public:
  explicit AnswerRows(Dataset data);

  int64_t size() const;
  std::string reads() const;
  std::string where(int64_t index) const;
  AnswerRow row(int64_t index) const;

 private:
  Dataset data_;
  std::optional<PreferenceRows> pairs_;
  size_t prompt_ = 0, completion_ = 0, label_ = 0;
  TemplateColumns template_columns_;
};

// The prompt that two answers begin with: TRL's extract_prompt.
void extract_prompt(PreferenceRow& row, const std::string& where);

}  // namespace transom
