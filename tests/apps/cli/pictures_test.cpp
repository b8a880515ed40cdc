// SPDX-License-Identifier: Apache-2.0
// transom run image-text-to-text from outside: pictures by flags, texts, chats.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/json/json.h"
#include "support/golden.h"

namespace transom {
namespace {

class RunOnPictures : public testing::Test {
 protected:
  static std::string call(const std::string& words) {
    return "run image-text-to-text --device cpu --model " + (test::folder_of_case("llava") / "model").string() + " " +
           words + " --max_new_tokens 10 --do_sample false";
  }
  static std::string picture(const char* name) { return (test::golden_folder() / "image" / name).string(); }
  static Json result(const std::string& words) {
    const test::CommandOutcome outcome = run(call(words) + " --json");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return parse_json(outcome.output, "output");
  }
  // What Transformers' pipeline gave.
  static Json golden(size_t number) {
    return read_json(test::golden_folder() / "pipelines" / "image-text-to-text.json")["runs"][number]["result"];
  }
};

TEST_F(RunOnPictures, GiveWhatTransformersGives) {
  EXPECT_EQ(result("--image " + picture("gradient.png") + " --text '<image>\nThe licence'"), golden(0));
  EXPECT_EQ(
      result("--image " + picture("gray.png") + " " + picture("alpha.png") + " --text '<image> and <image>: you may'"),
      golden(1));
  EXPECT_EQ(result("'The licence'"), golden(3));
  const Json chat = result("--image " + picture("gradient.png") + " --text 'What is it?'"), expected = golden(4);
  EXPECT_EQ(chat[0]["generated_text"].back(), expected[0]["generated_text"].back());
  EXPECT_EQ(chat[0]["input_text"][0]["content"][1], expected[0]["input_text"][0]["content"][1]);
  // A person sees the answer.
  EXPECT_EQ(run(call("--image " + picture("gradient.png") + " --text 'What is it?'")).output,
            expected[0]["generated_text"].back()["content"].get<std::string>() + "\n");
  const Json messages = Json::array({{{"role", "user"},
                                      {"content", Json::array({{{"type", "image"}, {"path", picture("gradient.png")}},
                                                               {{"type", "text"}, {"text", "What is it?"}}})}}});
  EXPECT_EQ(result("--text '" + dump_json(messages) + "'"), chat);
}

// transom generate asks the same model.
TEST_F(RunOnPictures, AreSeenByGenerate) {
  const auto generate = [](const std::string& words) {
    return run("generate --device cpu --model " + (test::folder_of_case("llava") / "model").string() +
               " --max_new_tokens 10 --do_sample false " + words);
  };
  const std::string answer = golden(4)[0]["generated_text"].back()["content"].get<std::string>();
  const std::string image = "--image " + picture("gradient.png");
  EXPECT_EQ(generate(image + " --messages 'What is it?'").output, answer + "\n");
  const Json chat = parse_json(generate(image + " --messages 'What is it?' --json").output, "output");
  EXPECT_EQ(chat[0]["generated_text"].back()["content"], answer);
  const Json text = parse_json(generate(image + " --json -- '<image>\nThe licence'").output, "output");
  EXPECT_NE(text[0]["generated_text"].get<std::string>(), "");
  EXPECT_EQ(generate("--messages 'Hello'").status, 0);
  expect_one_line(generate(image + " -- 'no place'"), 1, "the text has 0 <image> for pictures, and 1 picture is given");
}

TEST_F(RunOnPictures, RefuseWhatDoesNotFit) {
  expect_one_line(run(call("--image " + picture("gray.png") + " --text '<image> <image>'")), 1,
                  "the text has 2 <image> for pictures, and 1 picture is given");
  expect_one_line(run(call("--image " + picture("gray.png"))), 2, "--text is missing");
  expect_one_line(run(call("--image nowhere.png --text 'What?'")), 1, "nowhere.png");
  expect_one_line(run(call("--image " + picture("gray.png") + " --text '[]'")), 2, "names its pictures itself");
}

}  // namespace
}  // namespace transom
