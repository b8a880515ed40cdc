// SPDX-License-Identifier: Apache-2.0
// Answers that evaluations of --task sft show.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"

namespace transom {
namespace {

class ShownAnswers : public testing::Test {
 protected:
  std::string run(const std::string& rows, std::vector<std::string> more) {
    const std::string file = (work_.path() / "rows.jsonl").string();
    write_file(file, rows);
    more.insert(more.end(),
                {"--task", "sft", "--model_name_or_path", (test::golden_folder() / "sft" / "qwen2" / "model").string(),
                 "--train_file", file, "--validation_file", file, "--output_dir", (work_.path() / "out").string(),
                 "--max_steps", "1", "--do_eval", "--per_device_train_batch_size", "1", "--save_strategy", "no"});
    const test::KeptLog log;
    const std::string message = test::message_of([&] { fine_tune(parse_train_arguments(more)); });
    said_ = log.text();
    return message;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }
  test::TemporaryFolder work_;
  std::string said_;
};

constexpr const char* kChats =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, you."}]}
{"messages": [{"role": "user", "content": "Two?"}, {"role": "assistant", "content": "It is 2."}]}
)";

TEST_F(ShownAnswers, StandBesideThoseOfTheRows) {
  ASSERT_EQ(run(kChats, {"--num_samples_to_print", "1", "--generation_max_length", "4"}), "");
  EXPECT_TRUE(said("1 of 1 texts of this evaluation:\n  wanted  \"Hello, you.\"\n  written \"")) << said_;
  EXPECT_FALSE(said("wanted  \"It is 2.\"")) << said_;
  EXPECT_FALSE(said("no effect")) << said_;
}

TEST_F(ShownAnswers, OfPromptsWithCompletions) {
  ASSERT_EQ(run("{\"prompt\": \"One and one is\", \"completion\": \" two.\"}\n", {"--num_samples_to_print", "3"}), "");
  EXPECT_TRUE(said("wanted  \" two.\"")) << said_;
}

TEST_F(ShownAnswers, AreNotShownUnasked) {
  ASSERT_EQ(run(kChats, {}), "");
  EXPECT_FALSE(said("of this evaluation")) << said_;
}

TEST_F(ShownAnswers, TextsWithoutPromptsAreRefused) {
  EXPECT_NE(run("{\"text\": \"Only text.\"}\n", {"--num_samples_to_print", "1"}).find("has no prompt"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
