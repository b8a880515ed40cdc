// SPDX-License-Identifier: Apache-2.0
// Several models within a budget of memory: they take turns, and answers do not change by it.
#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"
#include "base/error.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::golden_model;
using test::json_of;

int64_t weights_of(const std::string& name) {
  return static_cast<int64_t>(std::filesystem::file_size(test::golden_folder() / name / "model" / "model.safetensors"));
}

class Budget : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_golden("llama-lm") || !test::has_golden("mpnet-model")) GTEST_SKIP() << "no golden models";
  }
  static serve::ServeOptions options(int64_t budget) {
    serve::ServeOptions o{.models = {golden_model("llama-lm", "chat"), golden_model("mpnet-model", "embed")}};
    o.memory_budget = budget;
    return o;
  }
  // One of the two at a time.
  static int64_t small_budget() { return std::max(weights_of("llama-lm"), weights_of("mpnet-model")); }
  // Asks again while the model is loaded, as clients do.
  static Answer ask(uint16_t port, const std::string& path, const Json& body, int* refused = nullptr) {
    for (int i = 0; i < 600; ++i) {
      Client client(port);
      Answer answer = client.post(path, dump_json(body));
      if (answer.status != 503) return answer;
      EXPECT_EQ(answer.headers.at("retry-after"), "1");
      EXPECT_NE(answer.body.find("being loaded"), std::string::npos) << answer.body;
      if (refused) ++*refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "the model was never loaded";
    return {};
  }
  static Json chat() { return {{"model", "chat"}, {"prompt", "one two"}, {"max_tokens", 8}, {"temperature", 0}}; }
  static Json embed() { return {{"model", "embed"}, {"input", "a cat"}}; }
};

TEST_F(Budget, ModelsTakeTurns) {
  const auto whole = test::start_server(options(0));
  const Json written = json_of(ask(whole->port(), "/v1/completions", chat()))["choices"];
  const Json vector = json_of(ask(whole->port(), "/v1/embeddings", embed()))["data"];
  const auto server = test::start_server(options(small_budget()));
  int refused = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(json_of(ask(server->port(), "/v1/completions", chat(), &refused))["choices"], written);
    EXPECT_EQ(json_of(ask(server->port(), "/v1/embeddings", embed(), &refused))["data"], vector);
  }
  EXPECT_GE(refused, 5);
  Client client(server->port());
  EXPECT_EQ(json_of(client.get("/v1/models"))["data"].size(), 2u);  // who is not there is still served
  const std::string metrics = client.get("/metrics").body;
  EXPECT_NE(metrics.find("transom_model_in_memory{model_name=\"chat\"} 0"), metrics.npos) << metrics;
  EXPECT_NE(metrics.find("transom_model_in_memory{model_name=\"embed\"} 1"), metrics.npos);
  EXPECT_EQ(json_of(client.get("/api/ps"))["models"].size(), 1u);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(Budget, AModelInUseStaysUntilItsAnswersEnd) {
  const auto server = test::start_server(options(small_budget()));
  Json request = chat();
  request["max_tokens"] = 40;
  request["ignore_eos"] = true;
  const Json expected = json_of(ask(server->port(), "/v1/completions", request))["choices"];
  std::vector<std::thread> clients;
  std::atomic<int> equal{0}, vectors{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (int round = 0; round < 3; ++round)
        equal += json_of(ask(server->port(), "/v1/completions", request))["choices"] == expected;
    });
    clients.emplace_back([&] {
      for (int round = 0; round < 3; ++round) vectors += ask(server->port(), "/v1/embeddings", embed()).status == 200;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(equal, 12);
  EXPECT_EQ(vectors, 12);
}

// Each client comes back only after the other one has asked for its model.
TEST_F(Budget, ClientsThatComeBackSlowlyAreAnswered) {
  const auto server = test::start_server(options(small_budget()));
  const auto answered = [&](const std::string& path, const Json& body, std::chrono::milliseconds first) {
    std::this_thread::sleep_for(first);
    for (int i = 0; i < 12; ++i) {
      if (Client(server->port()).post(path, dump_json(body)).status == 200) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(800));
    }
    return false;
  };
  bool writes = false, embeds = false;
  std::thread writer([&] { writes = answered("/v1/completions", chat(), std::chrono::milliseconds(0)); });
  std::thread embedder([&] { embeds = answered("/v1/embeddings", embed(), std::chrono::milliseconds(400)); });
  writer.join();
  embedder.join();
  EXPECT_TRUE(writes);
  EXPECT_TRUE(embeds);
}

TEST_F(Budget, AModelThatCannotBeLoadedSaysWhy) {
  namespace fs = std::filesystem;
  test::TemporaryFolder folder;
  fs::copy(golden_model("llama-lm", "chat").path, folder / "chat", fs::copy_options::recursive);
  serve::ServeOptions broken = options(small_budget());
  broken.models[0].path = (folder / "chat").string();
  const auto server = test::start_server(broken);  // the first of the two has left for the second
  fs::remove(folder / "chat" / "model.safetensors");
  Client client(server->port());
  EXPECT_EQ(client.post("/v1/completions", dump_json(chat())).status, 503);
  const Answer answer = ask(server->port(), "/v1/completions", chat());
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("cannot be loaded"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("holds no weights"), std::string::npos) << answer.body;
  EXPECT_EQ(ask(server->port(), "/v1/embeddings", embed()).status, 200);
  // Asked again at once, it is not tried again: the other one stays.
  EXPECT_EQ(client.post("/v1/completions", dump_json(chat())).status, 500);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(Client(server->port()).post("/v1/embeddings", dump_json(embed())).status, 200);
}

TEST_F(Budget, WhatAModelCountsForDoesNotGrow) {
  const auto server = test::start_server(options(small_budget()));
  const auto counted = [&] {
    const std::string metrics = Client(server->port()).get("/metrics").body;
    const size_t place = metrics.find("\ntransom_models_bytes ");
    return place == metrics.npos ? std::string() : metrics.substr(place, metrics.find('\n', place + 1) - place);
  };
  const std::string before = counted();  // of the second model
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ask(server->port(), "/v1/completions", chat()).status, 200);
    EXPECT_EQ(ask(server->port(), "/v1/embeddings", embed()).status, 200);
    EXPECT_EQ(counted(), before);
  }
}

TEST_F(Budget, RefusesWhatNeverFits) {
  serve::ServeOptions tight = options(1000);
  tight.http.port = 0;
  serve::Server server(tight);
  server.start();
  try {
    server.load();
    FAIL() << "1000 bytes hold no model";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--memory_budget"), std::string::npos) << error.what();
  }
}

TEST_F(Budget, EndsWhileAModelIsLoaded) {
  const auto server = test::start_server(options(small_budget()));
  Client client(server->port());
  EXPECT_EQ(client.post("/v1/completions", dump_json(chat())).status, 503);
  server->stop();
}

}  // namespace
}  // namespace transom
