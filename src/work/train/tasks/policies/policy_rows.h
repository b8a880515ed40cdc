// SPDX-License-Identifier: Apache-2.0
// Prompts of files, with the columns that rewards read, and their order in a run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"
#include "transom/generation.h"
#include "transom/tokenizer.h"

namespace transom {

struct PolicyPrompt {
  std::string prompt;  // a text, or messages as JSON
  TokenIds tokens;
  std::map<std::string, std::string> columns;  // the others, as JSON
};

struct PolicyPrompts {
  std::vector<PolicyPrompt> rows;
  bool is_chat = false;
};

struct PromptOptions {
  std::string chat_template;  // empty: the tokenizer's
  Json variables = Json::object();
  int64_t most_tokens = 0;         // of a prompt; 0: any
  std::string why_most;            // behind the limit in errors
  bool add_special_tokens = true;  // to texts
};

// Column prompt, texts or lists of messages that end with one of the user or of a tool. Throws, with the file and the
// row, where a prompt says nothing, is malformed, or is too long.
PolicyPrompts read_policy_prompts(const Dataset& data, const Tokenizer& tokenizer, const PromptOptions& options);

// Which prompts the `number`th generation of an epoch is about, each once: TRL's RepeatSampler. What fills no
// generation is left out.
class PromptOrder {
 public:
  // `of_trainer`: each epoch is drawn anew, as by Trainer's sampler.
  PromptOrder(int64_t prompts, int64_t at_once, bool shuffles, int64_t seed, bool of_trainer = false);
  int64_t generations_of_epoch() const { return prompts_ / at_once_; }
  std::vector<int64_t> prompts_of(int64_t epoch, int64_t number) const;

 private:
  int64_t prompts_, at_once_;
  bool shuffles_, of_trainer_;
  int64_t seed_;
  mutable int64_t epoch_ = -1;
  mutable std::vector<int64_t> order_;
};

}  // namespace transom
