// SPDX-License-Identifier: Apache-2.0
// transom evaluate: the evaluation of `transom train`, alone.
#include "cli/command.h"

namespace transom {

Command evaluate_command() {
  Command command{.name = "evaluate", .help = "Evaluate a model on files; takes the flags of train"};
  command.run_words = [](std::vector<std::string> words) {
    for (const char* word : {"--do_eval", "true", "--do_train", "false"}) words.emplace_back(word);
    return train_command().run_words(words);
  };
  return command;
}

}  // namespace transom
