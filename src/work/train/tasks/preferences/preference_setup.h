// SPDX-License-Identifier: Apache-2.0
// What the tasks of preferences share: from arguments and files to a model, rows and a line about them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "work/train/tasks/preferences/preference_batches.h"
#include "work/train/tasks/task_data.h"

namespace transom {

class PreferenceSetup {
 public:
  // Reads the tokenizer, and refuses what no task of preferences has.
  PreferenceSetup(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

  const PreferenceEncoder& encoder() const { return encoder_; }
  const PaddingOptions& padding() const { return padding_; }
  int64_t max_length() const { return max_length_; }
  // Whether longer rows are cut in front; of dpo alone.
  bool keeps_end() const { return keeps_end_; }
  // What a run reads, for its first line.
  void reads(const std::string& what);
  // A decoder that writes, or one with so many labels.
  void load_language_model();
  void load_reward_model();
  // Refuses chats where there is no template to write them with.
  void expect_template(bool is_chat, const std::string& data) const;
  // Says which rows are left out because of max_length (`why` ends the sentence), and of which prompts the end differs.
  void say_what_is_odd(const std::vector<std::string>& left_out, int64_t rows, const std::string& why,
                       const std::optional<std::string>& changed_prompt, const std::string& data) const;
  // One row as text, the answers between » and «.
  void show(const PromptedTokens& chosen, const PromptedTokens& rejected, const std::string& where) const;
  // Files beside the model; nothing is kept of outputs.
  void finish();

  // Rows cut to max_length, in front where it is said.
  PromptedTokens cut(PromptedTokens tokens) const;

 private:
  const TrainArguments& arguments_;
  const TaskFiles& files_;
  TaskSetup& setup_;
  std::string chat_template_, eos_token_;
  PreferenceEncoder encoder_;
  PaddingOptions padding_;
  int64_t max_length_;
  bool keeps_end_;
};

}  // namespace transom
