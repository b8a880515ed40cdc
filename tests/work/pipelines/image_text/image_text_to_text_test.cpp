// SPDX-License-Identifier: Apache-2.0
// image-text-to-text by values: typed options and results, chats with pictures in memory.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/task_pipelines.h"

namespace transom {
namespace {

std::string seeing_model() { return (test::folder_of_case("llava") / "model").string(); }
std::string golden_picture(const char* name) { return (test::golden_folder() / "image" / name).string(); }
Json result_of_run(size_t number) {
  return read_json(test::golden_folder() / "pipelines" / "image-text-to-text.json")["runs"][number]["result"];
}

TEST(ImageTextToText, TypedTextsAreThoseOfTransformers) {
  const ImageTextToTextPipeline look(seeing_model());
  TextInput input("<image>\nThe licence");
  input.images = {golden_picture("gradient.png")};
  ImageTextToTextTask::Options options;
  options.max_new_tokens = 10;
  options.do_sample = false;
  EXPECT_EQ(look(input, options).at(0), result_of_run(0)[0]["generated_text"]);
  options.return_full_text = false;
  EXPECT_EQ("<image>\nThe licence" + look(input, options).at(0), result_of_run(0)[0]["generated_text"]);
  input.images = {FileBytes{read_file(golden_picture("gradient.png"))}};  // the same in memory
  EXPECT_EQ("<image>\nThe licence" + look(input, options).at(0), result_of_run(0)[0]["generated_text"]);
  input.images.clear();
  EXPECT_NE(test::message_of([&] { look(input, options); }).find("1 <image> for pictures, and 0"), std::string::npos);
}

TEST(ImageTextToText, ChatsGetTheirAnswer) {
  const LoadedPipeline look = pipeline("image-text-to-text", seeing_model());
  const ChatInput chat(R"([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}])",
                       {golden_picture("gradient.png")});
  const TaskOptions options{{"max_new_tokens", int64_t{10}}, {"do_sample", false}};
  const auto whole = std::get<std::vector<WrittenText>>(look.run(chat, options));
  const Json messages = Json::parse(std::get<ChatMessages>(whole.at(0)).messages);
  EXPECT_EQ(messages.back(), result_of_run(4)[0]["generated_text"].back());
  TaskOptions answer = options;
  answer.set("return_full_text", false);
  const auto alone = std::get<std::vector<WrittenText>>(look.run(chat, answer));
  EXPECT_EQ(std::get<std::string>(alone.at(0)), result_of_run(5)[0]["generated_text"]);
  EXPECT_NE(test::message_of([&] {
              look.run(TextInput("a"), {{"continue_final_message", true}});
            }).find("of chats"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
