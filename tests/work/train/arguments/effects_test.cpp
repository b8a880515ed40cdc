// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/effects.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/folders.h"
#include "transom/training_arguments.h"
#include "work/train/arguments/argument_tables.h"

namespace transom {
namespace {

using Sentences = std::vector<std::string>;

Sentences said(std::vector<std::string> flags, std::string_view task = "text-classification") {
  flags.insert(flags.end(), {"--model_name_or_path", "m", "--train_file", "a.csv", "--do_train"});
  return without_effect(parse_train_arguments(flags), task);
}

TEST(Effects, OfArgumentsThatNeedOthersAreSaid) {
  EXPECT_EQ(said({}), Sentences{});
  EXPECT_EQ(said({"--lora_r", "4", "--use_dora"}), (Sentences{"lora_r, use_dora have no effect without --use_peft"}));
  EXPECT_EQ(said({"--lora_r", "4", "--use_peft"}), Sentences{});
  EXPECT_EQ(said({"--eval_steps", "4"}), (Sentences{"eval_steps has no effect without --eval_strategy steps"}));
  EXPECT_EQ(said({"--eval_steps", "4", "--eval_strategy", "steps"}), Sentences{});
  EXPECT_EQ(said({"--optim", "sgd", "--adam_beta1", "0.8"}), (Sentences{"adam_beta1 has no effect with this --optim"}));
  EXPECT_EQ(said({"--ema_power", "0.5", "--dream_detail_preservation", "2", "--timestep_bias_portion", "0.5"},
                 "unconditional-image-generation"),
            (Sentences{"ema_power has no effect without --use_ema",
                       "dream_detail_preservation has no effect without --dream_training",
                       "timestep_bias_portion has no effect without --timestep_bias_strategy"}));
  EXPECT_EQ(said({"--full_determinism"}), (Sentences{"full_determinism has no effect: every run gives the same bits"}));
}

TEST(Effects, OfArgumentsOfOtherTasksAreSaid) {
  EXPECT_EQ(said({"--image_column_name", "photo", "--random_flip", "false"}, "unconditional-image-generation"),
            (Sentences{"image_column_name has no effect in unconditional-image-generation"}));
  EXPECT_EQ(said({"--label_all_tokens", "--doc_stride", "3", "--metric_name", "f1"}),
            (Sentences{"label_all_tokens, doc_stride have no effect in text-classification"}));
  EXPECT_EQ(said({"--label_all_tokens", "--metric_name", "f1"}, "token-classification"),
            (Sentences{"metric_name has no effect in token-classification"}));
  EXPECT_EQ(said({"--label_all_tokens"}, ""), (Sentences{"label_all_tokens has no effect on rows of input_ids"}));
  EXPECT_EQ(said({"--whole_word_mask"}, "fill-mask"), Sentences{});
}

// The words of a source but for the tables of arguments, which declare them and do not read them.
void add_words(const std::filesystem::path& file, std::set<std::string, std::less<>>& words) {
  std::ifstream stream(file);
  bool in_table = false;
  const bool header = file.extension() == ".h" && file.filename() == "training_arguments.h";
  for (std::string line; std::getline(stream, line);) {
    if (line.find("const Argument k") != line.npos) in_table = true;
    if (line.starts_with("};")) in_table = false;
    if (in_table || (header && line.find("return") == line.npos)) continue;
    std::string word;
    for (const char c : line + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else if (!word.empty()) {
        words.insert(word);
        word.clear();
      }
    }
  }
}

// Somebody must ask for an argument's value, or it is known to have no effect.
TEST(Effects, EveryArgumentIsReadSomewhere) {
  std::set<std::string, std::less<>> words, never;
  const std::filesystem::path root = test::source_folder();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "effects.cpp" && name != "argument_help.cpp") add_words(entry.path(), words);
  }
  add_words(root / "include/transom/training_arguments.h", words);
  for (const NeverActs& each : arguments_that_never_act()) {
    EXPECT_FALSE(each.reason.empty());
    never.emplace(each.name);
  }
  int64_t fields = 0;
  for (const ArgumentTable table : {training_table(), script_table()})
    for (const Argument& argument : table) {
      if (argument.kind != Argument::Kind::kField) continue;
      ++fields;
      EXPECT_TRUE(words.contains(argument.name) || never.contains(argument.name))
          << argument.name << " is read nowhere: carry it out, or say why not";
    }
  EXPECT_GT(fields, 150);
}

}  // namespace
}  // namespace transom
