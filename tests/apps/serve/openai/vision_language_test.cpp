// SPDX-License-Identifier: Apache-2.0
// Every family that chats about pictures, over sockets with image_url. A case of tests/golden is all that a new one
// needs.
#include <gtest/gtest.h>

#include "apps/serve/pictures.h"
#include "files/family/family.h"
#include "transom/pipeline.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

// The cases with a file whose families have a token that stands for a picture.
std::vector<std::string> seeing_cases(const char* file) {
  std::vector<std::string> cases;
  for (const std::string& name : test::golden_cases(file)) {
    const Json config = read_json(test::folder_of_case(name) / "model" / "config.json");
    const Family* family = find_family(config.value("model_type", ""));
    if (family && family->processors.image_tokens) cases.push_back(name);
  }
  return cases;
}

class SeeingServer : public testing::TestWithParam<std::string> {
 protected:
  static constexpr const char* kSeeingModel = "sees";
  static std::unique_ptr<serve::Server> started() {
    return test::start_server({.models = {{kSeeingModel, (test::folder_of_case(GetParam()) / "model").string()}}});
  }
};

class ServedPrompts : public SeeingServer {};

// As many tokens as the processor of Transformers makes of the messages and their pictures, where a model has no room
// for them too.
TEST_P(ServedPrompts, AreThoseOfTransformers) {
  const auto server = started();
  size_t with_pictures = 0;
  const Json golden = read_json(test::folder_of_case(GetParam()) / "processed.json");
  for (const Json& run : golden["runs"]) {
    if (!run.contains("messages") || run["messages"].back()["role"] != "user") continue;
    Json messages = run["messages"];
    auto file = run["images"].begin();
    for (Json& message : messages)
      for (Json& part : message["content"])
        if (part["type"] == "image") part = test::url_part(test::url_of(test::picture((file++)->get<std::string>())));
    const test::Answer answer =
        test::post(*server, "/v1/chat/completions", test::chat_of_messages(messages, kSeeingModel, 1));
    const size_t expected = run["input_ids"].size();
    if (answer.status == 200) {
      EXPECT_EQ(test::json_of(answer)["usage"]["prompt_tokens"], expected);
    } else {
      EXPECT_NE(answer.body.find(fmt::format("the prompt has {} and", expected)), std::string::npos) << answer.body;
    }
    with_pictures += run["images"].empty() ? 0 : 1;
  }
  EXPECT_GE(with_pictures, 2u);
}

INSTANTIATE_TEST_SUITE_P(Cases, ServedPrompts, testing::ValuesIn(seeing_cases("processed.json")), test::NameOfCase());

class ServedAnswers : public SeeingServer {
 protected:
  static constexpr const char* kQuestion = "What is it?";
  static constexpr int64_t kMostTokens = 6;

  static Json request(const std::string& file) {
    const Json content = Json::array({test::url_part(test::url_of(test::picture(file))), test::text_part(kQuestion)});
    return test::chat_of_messages(Json::array({{{"role", "user"}, {"content", content}}}), kSeeingModel, kMostTokens);
  }
  // The tokens that the model writes without a server, behind those of the prompt.
  static TokenIds written(const LoadedPipeline& look, const std::string& file) {
    const Json content = Json::array({{{"type", "image"}}, test::text_part(kQuestion)});
    const ChatInput chat(dump_json(Json::array({{{"role", "user"}, {"content", content}}})),
                         {test::path_of_picture(file).string()});
    const TaskOptions options{{"max_new_tokens", kMostTokens}, {"do_sample", false}, {"return_tensors", true}};
    const auto rows = std::get<std::vector<WrittenText>>(look.run(chat, options));
    return std::get<TokenIds>(rows.at(0));
  }
};

// One picture twice, then another: what is kept of the first is found again for the same picture alone.
TEST_P(ServedAnswers, AreThoseOfTheModelForEachPicture) {
  const auto server = started();
  const std::string model = (test::folder_of_case(GetParam()) / "model").string();
  const LoadedPipeline look = pipeline("image-text-to-text", model);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model);
  std::vector<Json> chances;
  for (const char* file : {"gray.png", "gray.png", "gradient.png"}) {
    Json body = request(file);
    body["logprobs"] = true;
    const Json answer = test::chat_answer(*server, body), choice = answer["choices"][0];
    const TokenIds ids = written(look, file);
    const size_t prompt = answer["usage"]["prompt_tokens"].get<size_t>();
    ASSERT_LT(prompt, ids.size());
    const std::string content = choice["message"]["content"];
    const std::string alone = tokenizer.decode(TokenIds(ids.begin() + static_cast<ptrdiff_t>(prompt), ids.end()), true);
    // Decoded alone, what is written may lack the space before its first word.
    EXPECT_EQ(content, content.starts_with(' ') && !alone.starts_with(' ') ? " " + alone : alone) << file;
    chances.push_back(choice["logprobs"]["content"][0]["logprob"]);
  }
  EXPECT_NE(chances[1], chances[2]);
}

TEST_P(ServedAnswers, ComeInPiecesToo) {
  const auto server = started();
  Json body = request("gray.png");
  const Json whole = test::chat_answer(*server, body)["choices"][0]["message"]["content"];
  body["stream"] = true;
  std::string text;
  for (const std::string& event : test::events_of(test::post(*server, "/v1/chat/completions", body).body)) {
    if (event == "[DONE]") continue;
    const Json choices = Json::parse(event)["choices"];
    if (!choices.empty()) text += choices[0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole);
}

INSTANTIATE_TEST_SUITE_P(Cases, ServedAnswers, testing::ValuesIn(seeing_cases("model/processor_config.json")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
