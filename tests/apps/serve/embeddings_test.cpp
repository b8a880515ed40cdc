// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "apps/serve/golden_server.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Client;
using test::golden_model;
using test::json_of;

class Embeddings : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("mpnet-model")) return;
    server_ = test::start_server({.models = {golden_model("mpnet-model", "embed")}}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static std::vector<float> vector_of(const std::string& text) {
    Client client(server_->port());
    return json_of(client.post("/v1/embeddings", dump_json({{"input", text}})))["data"][0]["embedding"]
        .get<std::vector<float>>();
  }
  static inline serve::Server* server_ = nullptr;
};

std::vector<float> of_base64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(letters.find(c));
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), 4 * values.size());
  return values;
}

TEST_F(Embeddings, Base64HoldsTheSameNumbers) {
  Client client(server_->port());
  const Json floats = json_of(client.post("/v1/embeddings", R"({"model":"embed","input":["a cat","the dog sat"]})"));
  const Json base64 =
      json_of(client.post("/embeddings", R"({"input":["a cat","the dog sat"],"encoding_format":"base64"})"));
  EXPECT_EQ(floats["object"], "list");
  EXPECT_EQ(floats["model"], "embed");
  EXPECT_GT(floats["usage"]["prompt_tokens"], 4);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(floats["data"][i]["index"], i);
    EXPECT_EQ(floats["data"][i]["embedding"].get<std::vector<float>>(),
              of_base64(base64["data"][i]["embedding"].get<std::string>()));
  }
}

TEST_F(Embeddings, IdsAreTextsThatAreTokenisedAlready) {
  Client client(server_->port());
  const Json ids = json_of(client.post("/tokenize", R"({"prompt":"a small house"})"))["tokens"];
  const Json one = json_of(client.post("/v1/embeddings", dump_json({{"input", ids}})));
  const Json two = json_of(client.post("/v1/embeddings", dump_json({{"input", Json::array({ids, ids})}})));
  EXPECT_EQ(one["data"][0]["embedding"].get<std::vector<float>>(), vector_of("a small house"));
  EXPECT_EQ(two["data"][1]["embedding"], one["data"][0]["embedding"]);
}

TEST_F(Embeddings, DimensionsCutAndNormalise) {
  Client client(server_->port());
  const auto cut = json_of(client.post("/v1/embeddings", R"({"input":"a cat","dimensions":8})"))["data"][0]["embedding"]
                       .get<std::vector<float>>();
  ASSERT_EQ(cut.size(), 8u);
  double length = 0;
  for (const float each : cut) length += each * each;
  EXPECT_NEAR(length, 1, 1e-5);
}

TEST_F(Embeddings, LongTextsAreCutWhereThatIsAsked) {
  Client client(server_->port());
  std::string text = "word";
  for (int i = 0; i < 300; ++i) text += " word";
  EXPECT_EQ(client.post("/v1/embeddings", dump_json({{"input", text}, {"truncate_prompt_tokens", -1}})).status, 200);
  EXPECT_EQ(client.post("/embed", dump_json({{"inputs", text}})).status, 413);
  EXPECT_EQ(client.post("/embed", dump_json({{"inputs", text}, {"truncate", true}})).status, 200);
}

TEST_F(Embeddings, TheOtherEndIsKeptWhereThatIsAsked) {
  Client client(server_->port());
  Json ids = Json::array();
  for (int i = 0; i < 400; ++i) ids.push_back(10 + i % 30);
  const Json limit = json_of(client.post("/tokenize", R"({"prompt":"a"})"))["max_model_len"];
  const Json end(std::vector<Json>(ids.end() - limit.get<ptrdiff_t>(), ids.end()));
  EXPECT_EQ(
      client.post("/embed", dump_json({{"inputs", ids}, {"truncate", true}, {"truncation_direction", "Left"}})).body,
      client.post("/embed", dump_json({{"inputs", end}})).body);
  EXPECT_NE(client.post("/embed", dump_json({{"inputs", ids}})).body.find("set truncate to true"), std::string::npos);
}

TEST(EmbeddingPrompts, BeginTheTexts) {
  if (!test::has_golden("mpnet-model")) GTEST_SKIP() << "no golden models";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("transom_prompts_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy(golden_model("mpnet-model", "").path, folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::ofstream(folder / "config_sentence_transformers.json") << R"({"prompts":{"query":"ask: ","none":""}})";
  {
    const auto server = test::start_server({.models = {{"embed", folder.string()}}});
    Client client(server->port());
    const auto vectors = [&](const char* path, const char* body) {
      const auto answer = client.post(path, body);
      EXPECT_EQ(answer.status, 200) << answer.body;
      return answer.body;
    };
    const std::string asked = vectors("/embed", R"({"inputs":["ask: a cat"]})");
    EXPECT_EQ(vectors("/embed", R"({"inputs":["a cat"],"prompt_name":"query"})"), asked);
    EXPECT_EQ(vectors("/embed", R"({"inputs":"a cat","prompt_name":"query"})"), asked);
    EXPECT_NE(vectors("/embed", R"({"inputs":"a cat","prompt_name":"none"})"), asked);
    EXPECT_EQ(vectors("/models/embed", R"({"inputs":"a cat","prompt_name":"query"})"),
              vectors("/models/embed", R"({"inputs":"ask: a cat"})"));
    const auto refused = client.post("/embed", R"({"inputs":"a cat","prompt_name":"answer"})");
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("expected none or query, found 'answer'"), std::string::npos) << refused.body;
    EXPECT_EQ(client.post("/embed", R"({"inputs":[1,2],"prompt_name":"query"})").status, 400);
  }
  fs::remove_all(folder);
}

// Whoever else asks, and however much: the bits are those of the text alone.
TEST_F(Embeddings, CompanyChangesNothing) {
  std::vector<std::string> texts;
  for (int i = 0; i < 24; ++i) {
    std::string text = "the";
    for (int k = 0; k <= i % 7; ++k) text += k % 2 == 0 ? " cat" : " house number " + std::to_string(i);
    texts.push_back(text);
  }
  std::vector<std::vector<float>> alone;
  for (const std::string& text : texts) alone.push_back(vector_of(text));
  std::vector<std::thread> clients;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 6; ++c)
    clients.emplace_back([&, c] {
      Client client(server_->port());
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t first = (i * 5 + static_cast<size_t>(c) * 7) % texts.size(), second = (first + 3) % texts.size();
        const Json answer =
            json_of(client.post("/v1/embeddings", dump_json({{"input", {texts[first], texts[second]}}})));
        if (answer["data"][0]["embedding"].get<std::vector<float>>() != alone[first]) ++wrong;
        if (answer["data"][1]["embedding"].get<std::vector<float>>() != alone[second]) ++wrong;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Embeddings, ScoresAndRanks) {
  Client client(server_->port());
  const Json ranked =
      json_of(client.post("/rerank", R"({"query":"a cat","documents":["a house","a cat",{"text":"dogs"}],"top_n":2})"));
  ASSERT_EQ(ranked["results"].size(), 2u);
  EXPECT_EQ(ranked["results"][0]["index"], 1);
  EXPECT_NEAR(ranked["results"][0]["relevance_score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(ranked["results"][0]["document"]["text"], "a cat");
  const Json tei =
      json_of(client.post("/rerank", R"({"query":"a cat","texts":["a house","a cat"],"return_text":true})"));
  EXPECT_EQ(tei[0]["index"], 1);
  EXPECT_EQ(tei[0]["text"], "a cat");
  const Json score = json_of(client.post("/score", R"({"text_1":"a cat","text_2":["a cat","a house"]})"));
  EXPECT_NEAR(score["data"][0]["score"].get<double>(), 1, 1e-5);
  EXPECT_EQ(client.post("/score", R"({"text_1":["a","b"],"text_2":["a"]})").status, 400);
  const Json similarity =
      json_of(client.post("/similarity", R"({"inputs":{"source_sentence":"a cat","sentences":["a cat"]}})"));
  EXPECT_NEAR(similarity[0].get<double>(), 1, 1e-5);
}

TEST_F(Embeddings, TokenizersOfBothInterfaces) {
  Client client(server_->port());
  const Json vllm = json_of(client.post("/tokenize", R"({"prompt":"a cat","return_token_strs":true})"));
  EXPECT_EQ(vllm["count"], vllm["tokens"].size());
  EXPECT_EQ(vllm["token_strs"].size(), vllm["tokens"].size());
  const Json tei = json_of(client.post("/tokenize", R"({"inputs":["a cat","b"]})"));
  ASSERT_EQ(tei.size(), 2u);
  EXPECT_EQ(tei[0].size(), vllm["tokens"].size());
  EXPECT_TRUE(tei[0][0]["special"]);
  EXPECT_EQ(json_of(client.post("/decode", dump_json({{"ids", vllm["tokens"]}})))[0], "a cat");
  EXPECT_NE(
      json_of(client.post("/detokenize", dump_json({{"tokens", vllm["tokens"]}})))["prompt"].get<std::string>().find(
          "a cat"),
      std::string::npos);
  const auto count = [&](bool split) {
    return json_of(
        client.post("/tokenize", dump_json({{"prompt", "a </s> b"}, {"split_special_tokens", split}})))["count"];
  };
  EXPECT_GT(count(true), count(false));
  EXPECT_GT(json_of(client.post("/tokenize", R"({"inputs":"a </s> b","split_special_tokens":true})"))[0].size(),
            json_of(client.post("/tokenize", R"({"inputs":"a </s> b"})"))[0].size());
  const test::Answer error = client.post("/embed", R"({"inputs":[]})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(json_of(error)["error_type"], "validation");
  EXPECT_EQ(json_of(client.get("/info"))["model_id"], "embed");
}

TEST(SparseEmbeddings, AreTheWeightsOfTokens) {
  test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordBert, "BertForMaskedLM");
  write_file(folder / "modules.json", R"([{"idx": 0, "name": "0", "path": "",
      "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}, {"idx": 1, "name": "1",
      "path": "1_SpladePooling", "type": "sentence_transformers.sparse_encoder.models.SpladePooling"}])");
  std::filesystem::create_directory(folder / "1_SpladePooling");
  write_file(folder / "1_SpladePooling" / "config.json", R"({"pooling_strategy": "max"})");
  const auto server = test::start_server({.models = {{"splade", folder.string()}}});
  Client client(server->port());
  const auto ask = [&](const Json& inputs) {
    return json_of(client.post("/embed_sparse", dump_json({{"inputs", inputs}})));
  };
  const Json both = ask({"w1 w2", "w3"});
  ASSERT_EQ(both.size(), 2u) << dump_json(both);
  EXPECT_EQ(ask("w3"), Json::array({both[1]}));
  ASSERT_FALSE(both[0].empty());
  int64_t before = -1;
  for (const Json& each : both[0]) {
    EXPECT_GT(each["value"].get<double>(), 0);
    EXPECT_GT(each["index"].get<int64_t>(), before);
    before = each["index"].get<int64_t>();
  }
  EXPECT_EQ(client.post("/embed_sparse", R"({"inputs": ""})").status, 400);
  EXPECT_EQ(client.post("/embed", R"({"inputs": "w1"})").status, 400);
}

TEST_F(Embeddings, VectorsOfTokensAreBounded) {
  Client client(server_->port());
  const Json text(std::vector<int>(60, 5));
  EXPECT_EQ(client.post("/embed_all", dump_json({{"inputs", Json::array({text, text})}})).status, 200);
  const std::vector<Json> many(280, text);
  const test::Answer answer = client.post("/embed_all", dump_json({{"inputs", many}}));
  EXPECT_EQ(answer.status, 413) << answer.body;
}

TEST_F(Embeddings, VectorsOfTokensAreThoseOfTheTextAlone) {
  Client client(server_->port());
  const auto states = [&](const Json& inputs) {
    return json_of(client.post("/embed_all", dump_json({{"inputs", inputs}})));
  };
  const Json both = states({"a cat", "the dog sat", "a dog"}), one = states("the dog sat");
  ASSERT_EQ(both.size(), 3u);
  EXPECT_EQ(both[1], one[0]);
  EXPECT_EQ(both[2], states("a dog")[0]);
  EXPECT_EQ(one[0].size(), json_of(client.post("/tokenize", R"({"prompt":"the dog sat"})"))["tokens"].size());
  EXPECT_EQ(one[0][0].size(), vector_of("a").size());
  EXPECT_NE(one[0][0], one[0][1]);
}

// What the boards of text-embeddings-inference show.
TEST_F(Embeddings, TheMetricsOfTei) {
  const auto server = test::start_server({.models = {golden_model("mpnet-model", "embed")}});
  Client client(server->port());
  EXPECT_EQ(client.post("/embed", R"({"inputs":"a cat"})").status, 200);
  EXPECT_EQ(client.post("/embed", R"({"inputs":["a cat","a dog","the dog sat"]})").status, 200);
  const std::string text = client.get("/metrics").body;
  for (const char* line :
       {"te_request_count{method=\"single\",model_name=\"embed\"} 1",
        "te_request_count{method=\"batch\",model_name=\"embed\"} 1",
        "te_request_success{method=\"single\",model_name=\"embed\"} 1",
        "te_request_success{method=\"batch\",model_name=\"embed\"} 1", "te_embed_count{model_name=\"embed\"} 4",
        "te_embed_success{model_name=\"embed\"} 4", "te_request_duration_count{model_name=\"embed\"} 2",
        "te_request_tokenization_duration_count{model_name=\"embed\"} 2",
        "te_request_queue_duration_count{model_name=\"embed\"} 2",
        "te_request_inference_duration_count{model_name=\"embed\"} 2",
        "te_request_input_length_count{model_name=\"embed\"} 4", "te_batch_next_size_sum{model_name=\"embed\"} 4",
        "te_queue_size{model_name=\"embed\"} 0"})
    EXPECT_NE(text.find(std::string("\n") + line + "\n"), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(text.find("te_request_failure"), std::string::npos);
}

TEST_F(Embeddings, RequestsThatAreRefusedCountAsFailures) {
  serve::ServeOptions options{.models = {golden_model("mpnet-model", "embed")}};
  options.max_client_batch_size = 0;  // and with it the queue's length
  const auto server = test::start_server(options);
  Client client(server->port());
  EXPECT_EQ(client.post("/similarity", R"({"inputs":{"source_sentence":"a","sentences":"b"}})").status, 429);
  EXPECT_NE(client.get("/metrics").body.find("te_request_failure{err=\"overloaded\",model_name=\"embed\"} 1"),
            std::string::npos);
}

TEST_F(Embeddings, HuggingFacesForm) {
  Client client(server_->port());
  const Json vectors =
      json_of(client.post("/models/embed", R"({"inputs":["a cat","a house"],"parameters":{"normalize":true}})"));
  ASSERT_EQ(vectors.size(), 2u);
  EXPECT_EQ(vectors[0].get<std::vector<float>>(), vector_of("a cat"));
  const Json scores =
      json_of(client.post("/models/embed", R"({"inputs":{"source_sentence":"a","sentences":["a","b"]}})"));
  EXPECT_EQ(scores.size(), 2u);
  EXPECT_EQ(client.post("/models/other", R"({"inputs":"a"})").status, 404);
  // huggingface_hub sends the settings of this task beside the inputs.
  const Json raw = json_of(client.post("/models/embed", R"({"inputs":"a cat","normalize":false})"));
  EXPECT_EQ(raw, json_of(client.post("/models/embed", R"({"inputs":"a cat","parameters":{"normalize":false}})")));
  double square = 0;
  const Json normal = json_of(client.post("/models/embed", R"({"inputs":"a cat","normalize":true})"));
  for (const Json& each : normal[0]) square += std::pow(each.get<double>(), 2);
  EXPECT_NEAR(square, 1, 1e-5);
}

}  // namespace
}  // namespace transom
