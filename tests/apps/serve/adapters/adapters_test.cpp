// SPDX-License-Identifier: Apache-2.0
// LoRA adapters that are loaded and unloaded over HTTP while the server answers.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "apps/serve/golden_server.h"
#include "support/save_adapter.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

class Adapters : public testing::Test {
 protected:
  Adapters() {
    test::save_word_model(model_, test::kWordGpt2);
    test::save_gpt2_adapter(folder_ / "one", model_.string(), 1.5F, 1);
    test::save_gpt2_adapter(folder_ / "two", model_.string(), 2.5F, 1);
    fs::create_directory(folder_ / "broken");
    write_file(folder_ / "broken" / "adapter_config.json", "{}");
    test::save_gpt2_adapter(outside_ / "three", model_.string(), 1, 1);
    fs::create_directory_symlink(outside_ / "three", folder_ / "link");
    serve::ServeOptions options{.models = {{"words", model_.string()}}};
    options.adapter_folder = folder_.string();
    server_ = test::start_server(options);
  }
  Answer post(const std::string& path, const Json& body) const {
    return Client(server_->port()).post(path, dump_json(body));
  }
  Answer load(const std::string& name, const std::string& path, const Json& more = Json::object()) const {
    Json body{{"lora_name", name}, {"lora_path", path}};
    body.update(more);
    return post("/v1/load_lora_adapter", body);
  }
  Answer unload(const std::string& name) const { return post("/v1/unload_lora_adapter", {{"lora_name", name}}); }
  Answer complete(const std::string& model) const {
    return post("/v1/completions", {{"model", model}, {"prompt", "w3 w4 w5"}, {"max_tokens", 12}, {"temperature", 0}});
  }
  std::string text_of(const std::string& model) const {
    const Answer answer = complete(model);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer)["choices"][0]["text"];
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const Json list = json_of(Client(server_->port()).get("/v1/models"));
    for (const Json& model : list["data"]) names.push_back(model["id"]);
    return names;
  }
  test::TemporaryFolder model_, folder_, outside_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(Adapters, ComeAndGo) {
  const std::string plain = text_of("words");
  EXPECT_EQ(complete("x").status, 404);
  const Answer loaded = load("x", "one");
  EXPECT_EQ(loaded.status, 200);
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'x' added successfully.");
  EXPECT_EQ(names(), (std::vector<std::string>{"words", "x"}));
  const std::string one = text_of("x");
  EXPECT_NE(one, plain);
  EXPECT_EQ(text_of("words"), plain);
  EXPECT_EQ(load("y", (folder_ / "two").string()).status, 200);
  const std::string two = text_of("y");
  EXPECT_NE(two, one);
  // Another one in its place, and back.
  EXPECT_EQ(load("x", "two", {{"load_inplace", true}}).status, 200);
  EXPECT_EQ(text_of("x"), two);
  EXPECT_EQ(load("x", "one", {{"load_inplace", true}}).status, 200);
  EXPECT_EQ(text_of("x"), one);
  const Answer removed = unload("x");
  EXPECT_EQ(removed.status, 200);
  EXPECT_EQ(removed.body, "Success: LoRA adapter 'x' removed successfully.");
  EXPECT_EQ(complete("x").status, 404);
  EXPECT_EQ(names(), (std::vector<std::string>{"words", "y"}));
}

TEST_F(Adapters, RefusesAsVllmDoes) {
  const auto expect = [](const Answer& answer, int status, const std::string& part) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_NE(json_of(answer)["error"]["message"].get<std::string>().find(part), std::string::npos) << answer.body;
  };
  expect(post("/v1/load_lora_adapter", {{"lora_name", "x"}}), 400,
         "Both 'lora_name' and 'lora_path' must be provided.");
  expect(post("/v1/unload_lora_adapter", Json::object()), 400, "'lora_name' needs to be provided");
  expect(load("words", "one"), 400, "conflicts with a served base model");
  expect(unload("x"), 404, "The lora adapter 'x' cannot be found.");
  ASSERT_EQ(load("x", "one").status, 200);
  expect(load("x", "two"), 400, "has already been loaded");
  expect(load("z", "broken"), 400, "the adapter of 'broken' is not taken");
  // Nothing but what lies in the folder is looked at.
  for (const std::string& path :
       std::vector<std::string>{"none", "../three", "link", "/", ".", "one/../..", model_.string()})
    expect(load("z", path), 404, "no adapter found");
  EXPECT_EQ(names(), (std::vector<std::string>{"words", "x"}));
}

TEST(AdaptersOff, NeedTheFlag) {
  const test::TemporaryFolder model;
  test::save_word_model(model, test::kWordGpt2);
  const auto server = test::start_server({.models = {{"words", model.string()}}});
  const std::string body = R"({"lora_name": "x", "lora_path": "one"})";
  EXPECT_EQ(Client(server->port()).post("/v1/load_lora_adapter", body).status, 404);
  EXPECT_EQ(Client(server->port()).post("/v1/unload_lora_adapter", body).status, 404);
}

// Two ask all the time, and get the text of the base, or of an adapter that was there when they asked.
TEST_F(Adapters, ChangeWhileOthersAsk) {
  const std::string plain = text_of("words");
  ASSERT_EQ(load("x", "one").status, 200);
  const std::string one = text_of("x");
  ASSERT_EQ(load("x", "two", {{"load_inplace", true}}).status, 200);
  const std::string two = text_of("x");
  std::atomic<bool> ends{false};
  std::atomic<int> adapted{0}, wrong{0};
  const auto ask = [&] {
    while (!ends) {
      if (text_of("words") != plain) ++wrong;
      const Answer answer = complete("x");
      if (answer.status == 200) {
        const std::string text = json_of(answer)["choices"][0]["text"];
        if (text == one || text == two) ++adapted;
        else ++wrong;
      } else if (answer.status != 404 && answer.status != 400) {
        ++wrong;
      }
      names();
    }
  };
  std::thread first(ask), second(ask);
  // On a busy machine those who ask may not come to their turn for a while.
  for (int i = 0; i < 12 || (adapted == 0 && i < 5000); ++i) {
    EXPECT_EQ(load("x", i % 2 ? "two" : "one", {{"load_inplace", true}}).status, 200);
    EXPECT_EQ(unload("x").status, 200);
    EXPECT_EQ(load("x", i % 2 ? "one" : "two").status, 200);
  }
  ends = true;
  first.join(), second.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(adapted, 0);
}

}  // namespace
}  // namespace transom
