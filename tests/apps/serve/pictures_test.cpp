// SPDX-License-Identifier: Apache-2.0
// Chats with pictures over sockets: OpenAI's, Anthropic's and Ollama's forms, what is found again, what is refused.
#include <gtest/gtest.h>

#include "apps/serve/pictures.h"

namespace transom {
namespace {

using test::Answer;
using test::golden_model;
using test::json_of;
using test::picture;
using test::text_part;
using test::url_of;
using test::url_part;

class ServedPictures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("llava") || !test::has_golden("llava-qwen2") || !test::has_golden("llama-lm")) return;
    serve::ServeOptions options{.models = {golden_model("llava", "sees"), golden_model("llava-qwen2", "qwen"),
                                           golden_model("llama-lm", "reads")}};
    options.most_images = 3;
    options.most_image_pixels = 5000;
    server_ = test::start_server(options).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Answer post(const std::string& path, const Json& body) { return test::post(*server_, path, body); }
  static Json chat_of(const Json& content, const char* model = "sees") {
    return test::chat_of_messages(Json::array({{{"role", "user"}, {"content", content}}}), model);
  }
  static Json asked(const Json& body) { return test::chat_answer(*server_, body); }
  static std::string written(const Json& content, const char* model = "sees") {
    return asked(chat_of(content, model))["choices"][0]["message"]["content"].get<std::string>();
  }
  static std::string refused(const Json& content, const char* model = "sees") {
    const Answer answer = post("/v1/chat/completions", chat_of(content, model));
    EXPECT_EQ(answer.status, 400) << answer.body;
    const std::string message = json_of(answer)["error"]["message"].get<std::string>();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  static inline serve::Server* server_ = nullptr;
};

TEST_F(ServedPictures, ChangeTheAnswer) {
  for (const char* model : {"sees", "qwen"}) {
    const Json gray = Json::array({url_part(url_of(picture("gray.png"))), text_part("What is it?")});
    const Json other = Json::array({url_part(url_of(picture("gradient.png"))), text_part("What is it?")});
    EXPECT_EQ(written(gray, model), written(gray, model));
    const Json logprobs{{"logprobs", true}};
    Json one = chat_of(gray, model), two = chat_of(other, model);
    one.update(logprobs), two.update(logprobs);
    EXPECT_NE(asked(one)["choices"][0]["logprobs"], asked(two)["choices"][0]["logprobs"]) << model;
    EXPECT_NE(written(gray, model), "");
    EXPECT_NE(written("no picture", model), "");
  }
}

// The forms of other clients are the same request.
TEST_F(ServedPictures, ComeInSeveralForms) {
  const std::string bytes = picture("shapes.jpg"), base64 = to_base64(bytes);
  const auto content = [&](const Json& part) { return Json::array({part, text_part("And?")}); };
  const std::string expected = written(content(url_part(url_of(bytes))));
  const Json source{{"type", "base64"}, {"media_type", "image/jpeg"}, {"data", base64}};
  EXPECT_EQ(written(content({{"type", "image"}, {"source", source}})), expected);
  EXPECT_EQ(written(content({{"type", "image"}, {"base64", base64}})), expected);
  EXPECT_EQ(written(content({{"type", "image_url"}, {"image_url", url_of(bytes)}})), expected);
  const Json ollama{{"model", "sees"},
                    {"messages", Json::array({{{"role", "user"}, {"content", "And?"}, {"images", {base64}}}})},
                    {"options", {{"num_predict", 8}, {"temperature", 0}}},
                    {"stream", false}};
  EXPECT_EQ(json_of(post("/api/chat", ollama))["message"]["content"], expected);
  const Json generate{{"model", "sees"},
                      {"prompt", "And?"},
                      {"images", {base64}},
                      {"options", {{"num_predict", 8}, {"temperature", 0}}},
                      {"stream", false}};
  const Json answer = json_of(post("/api/generate", generate));
  EXPECT_EQ(answer["response"], expected);
  EXPECT_FALSE(answer.contains("context"));  // tokens hold no pictures
  const Json response{
      {"model", "sees"},
      {"input", Json::array({{{"role", "user"},
                              {"content", Json::array({{{"type", "input_image"}, {"image_url", url_of(bytes)}},
                                                       {{"type", "input_text"}, {"text", "And?"}}})}}})},
      {"max_output_tokens", 16},
      {"temperature", 0}};
  const Answer of_response = post("/v1/responses", response);
  EXPECT_EQ(of_response.status, 200) << of_response.body;
}

TEST_F(ServedPictures, AreFoundAgainInTheCache) {
  const auto cached = [&](const char* file) {
    const Json content = Json::array({url_part(url_of(picture(file))), text_part("A text that is long enough.")});
    return asked(chat_of(content, "qwen"))["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
  };
  cached("alpha.png");
  EXPECT_GE(cached("alpha.png"), 32);
  EXPECT_LT(cached("gray.png"), 17);
}

TEST_F(ServedPictures, HaveLimits) {
  const Json one = url_part(url_of(picture("gray.png")));
  EXPECT_NE(refused(Json::array({one, one, one, one})).find("one picture more than the 3"), std::string::npos);
  // A header that claims 100 megapixels, and nothing behind it.
  std::string bomb = picture("gray.png");
  bomb[18] = '\x27', bomb[19] = '\x10', bomb[22] = '\x27', bomb[23] = '\x10';
  EXPECT_NE(refused(Json::array({url_part(url_of(bomb))})).find("10000 x 10000 pixels; at most 5000"),
            std::string::npos);
  EXPECT_NE(refused(Json::array({url_part("http://169.254.169.254/latest")})).find("fetches nothing"),
            std::string::npos);
  EXPECT_NE(refused(Json::array({url_part("file:///etc/passwd")})).find("fetches nothing"), std::string::npos);
  EXPECT_NE(refused(Json::array({url_part(url_of("no picture"))})).find("its first bytes"), std::string::npos);
  EXPECT_NE(refused(Json::array({url_part(url_of(picture("gray.png").substr(0, 60)))})).find("messages[0]"),
            std::string::npos);
  EXPECT_NE(refused(Json::array({{{"type", "image_url"}}})).find("expected"), std::string::npos);
  EXPECT_NE(refused(Json::array({one, text_part("a <image> of the text")})).find("2 <image> for pictures, and 1"),
            std::string::npos);
  EXPECT_NE(refused(Json::array({one}), "reads").find("which reads texts"), std::string::npos);
  for (const char* url : {"HTTPS://x/a.png", "ftp://x/a.png", "s3://x/a.png", "File:///etc/passwd"})
    EXPECT_NE(refused(Json::array({url_part(url)})).find("fetches nothing"), std::string::npos) << url;
  EXPECT_NE(written(Json::array({one, text_part("still there?")})), "");
}

// The same bytes, however the URL is written.
TEST_F(ServedPictures, ComeInUrlsOfAllSpellings) {
  const std::string base64 = to_base64(picture("shapes.jpg"));
  std::string escaped;
  for (const char c : base64) escaped += c == '+' ? "%2B" : c == '/' ? "%2f" : c == '=' ? "%3D" : std::string(1, c);
  const auto content = [&](const std::string& url) { return Json::array({url_part(url), text_part("And?")}); };
  const std::string expected = written(content("data:image/jpeg;base64," + base64));
  for (const std::string& url : {"DATA:image/jpeg;BASE64," + base64, "data:;base64," + base64,
                                 "data:text/plain;charset=utf-8;base64," + base64, "data:image/jpeg;base64," + escaped})
    EXPECT_EQ(written(content(url)), expected) << url.substr(0, 40);
}

// A picture where nothing reads it is no answer without it.
TEST_F(ServedPictures, AreNotLostBesideOtherMembers) {
  const std::string url = url_of(picture("gray.png"));
  const Json picture_part = url_part(url);
  std::vector<Json> parts;
  for (const char* name : {"image_url", "image", "video_url", "input_audio", "file", "file_id", "source", "url"}) {
    Json part = text_part("x");
    part[name] = url;
    parts.push_back(part);
  }
  for (const char* name : {"image", "url", "base64", "file_id", "text"}) {
    Json part = picture_part;
    part[name] = url;
    parts.push_back(part);
  }
  for (const char* type : {"input_audio", "audio_url", "video_url", "file", "input_file", "image_embeds"})
    parts.push_back({{"type", type}, {type, url}});
  for (const Json& part : parts) EXPECT_NE(refused(Json::array({part})).find("messages[0]"), std::string::npos) << part;
  for (const char* name : {"images", "audio", "videos", "files"}) {
    Json body = chat_of("x");
    body["messages"][0][name] = Json::array({url});
    EXPECT_EQ(post("/v1/chat/completions", body).status, 400) << name;
    body["messages"][0][name] = nullptr;
    EXPECT_EQ(post("/v1/chat/completions", body).status, 200) << name;
  }
  const Answer markdown = post("/generate", {{"model", "sees"}, {"inputs", "![](" + url + ")What?"}});
  EXPECT_EQ(markdown.status, 400);
  EXPECT_NE(markdown.body.find("Markdown"), std::string::npos) << markdown.body;
}

// The template gets the parts that the client has sent: these tests know what Transformers makes of them.
TEST_F(ServedPictures, AndTextsKeepTheirPlacesAsParts) {
  const auto prompt = [&](const Json& content) {
    Json body = chat_of(content);
    body["return_token_ids"] = true;
    return asked(body)["prompt_token_ids"];
  };
  const auto tokens = [&](const std::string& text) {
    return json_of(post("/tokenize", {{"model", "sees"}, {"prompt", text}}))["tokens"];
  };
  // llava-hf's template writes each text, and a space behind it, behind all pictures.
  EXPECT_EQ(prompt(Json::array({text_part("a"), text_part("b")})), tokens("USER: a b ASSISTANT:"));
}

}  // namespace
}  // namespace transom
