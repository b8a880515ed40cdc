// SPDX-License-Identifier: Apache-2.0
// transom evaluate: the evaluation of `transom train`, alone.
#include <algorithm>

#include "base/error.h"
#include "cli/command.h"

namespace transom {

Command evaluate_command() {
  Command command{.name = "evaluate",
                  .help = "Evaluate a model on files; takes the flags of train, and --quantization int8"};
  command.run_words = [](std::vector<std::string> words) {
    NumberOptions numbers;
    constexpr std::string_view kFlag = "--quantization", kWithValue = "--quantization=";
    if (const auto flag = std::ranges::find(words, kFlag); flag != words.end()) {
      if (flag + 1 == words.end()) fail(ErrorKind::kUsage, "--quantization: expected none or int8");
      numbers.quantization = flag[1];
      words.erase(flag, flag + 2);
    } else if (const auto both =
                   std::ranges::find_if(words, [=](const auto& word) { return word.starts_with(kWithValue); });
               both != words.end()) {
      numbers.quantization = both->substr(kWithValue.size());
      words.erase(both);
    }
    const auto scope = numbers.apply();
    for (const char* word : {"--do_eval", "true", "--do_train", "false"}) words.emplace_back(word);
    return train_command().run_words(words);
  };
  return command;
}

}  // namespace transom
