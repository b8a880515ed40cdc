// SPDX-License-Identifier: Apache-2.0
// Models of sentence-transformers behind the server: their vectors, limits, prompts and scores, on the paths of each
// interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/serve/golden_server.h"
#include "base/error.h"
#include "base/files/files.h"
#include "support/folders.h"
#include "support/word_models.h"

namespace transom {
namespace {

namespace fs = std::filesystem;
using test::Client;
using test::json_of;

fs::path recorded() { return fs::path(test::source_folder()) / "tests/wild/serve/sentence-transformers"; }

void make_case(const std::string& name, const fs::path& folder) {
  const auto options = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  fs::copy(recorded() / read_json(recorded() / name / "case.json")["model"].get<std::string>(), folder, options);
  fs::copy(recorded() / name, folder, options);
}

TEST(SentenceVectors, AreThoseOfSentenceTransformers) {
  for (const char* name : {"00", "02", "03", "05", "07", "10", "11", "16"}) {
    const test::TemporaryFolder folder;
    make_case(name, folder);
    const Json expected = read_json(recorded() / name / "case.json");
    const auto server = test::start_server({.models = {{"model", folder.string()}}});
    Client client(server->port());
    Json texts = Json::array(), vectors = Json::array();
    for (size_t i = 0; i < expected["texts"].size(); ++i) {
      if (expected["texts"][i] == "") continue;  // refused, as by OpenAI and text-embeddings-inference
      texts.push_back(expected["texts"][i]);
      vectors.push_back(expected["vectors"][i]);
    }
    Json body{{"inputs", texts}};
    if (expected["prompt_name"].is_string()) body["prompt_name"] = expected["prompt_name"];
    const auto answer = client.post("/models/model", dump_json(body));
    ASSERT_EQ(answer.status, 200) << name << answer.body;
    const Json found = json_of(answer);
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(found[i].size(), vectors[i].size()) << name;
      for (size_t k = 0; k < found[i].size(); ++k)
        ASSERT_NEAR(found[i][k].get<double>(), vectors[i][k].get<double>(),
                    2e-5 * std::max(1.0, std::abs(vectors[i][k].get<double>())))
            << name << " text " << i;
    }
  }
}

TEST(SentenceVectors, TheLimitIsThatOfTheSentenceModel) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordBert, "BertModel");
  fs::create_directory(folder / "1_Pooling");
  write_file(folder / "modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
      {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  write_file(folder / "1_Pooling" / "config.json", R"({"pooling_mode": "lasttoken"})");
  write_file(folder / "sentence_bert_config.json", R"({"max_seq_length": 5})");
  const auto server = test::start_server({.models = {{"model", folder.string()}}});
  Client client(server->port());
  const Json info = json_of(client.get("/info"));
  EXPECT_EQ(info["max_input_length"], 5);
  EXPECT_EQ(info["model_type"]["embedding"]["pooling"], "lasttoken");
  const std::string five = "w1 w2 w3 w4 w5", seven = five + " w6 w7";
  EXPECT_EQ(client.post("/embed", dump_json({{"inputs", seven}})).status, 413);
  EXPECT_EQ(client.post("/v1/embeddings", dump_json({{"input", seven}})).status, 400);
  EXPECT_EQ(client.post("/embed", dump_json({{"inputs", seven}, {"truncate", true}})).body,
            client.post("/embed", dump_json({{"inputs", five}})).body);
  EXPECT_EQ(json_of(client.post("/api/embed", dump_json({{"model", "model"}, {"input", seven}})))["prompt_eval_count"],
            5);
}

TEST(SentenceVectors, ModulesThatAreNotSupportedAreRefusedAtOnce) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordBert, "BertModel");
  write_file(folder / "modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
      {"type": "sentence_transformers.models.WeightedLayerPooling", "path": "1_WeightedLayerPooling"}])");
  try {
    test::start_server({.models = {{"model", folder.string()}}});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("WeightedLayerPooling"), std::string::npos) << error.what();
  }
}

class PairScores : public testing::Test {
 protected:
  // The score of one pair by a cross-encoder whose files have these contents.
  Json score(const Json& more_config, const std::string& of_library, const char* path, const Json& body) {
    test::save_word_model(folder_, test::kWordBert, "BertForSequenceClassification");
    Json config = read_json(folder_ / "config.json");
    config["id2label"] = {{"0", "LABEL_0"}};
    config["label2id"] = {{"LABEL_0", 0}};
    config["num_labels"] = 1;
    config.update(more_config);
    Model::from_config(dump_json(config), {.seed = 5})->save_pretrained(folder_.string());
    Json saved = read_json(folder_ / "config.json");
    saved.update(more_config);
    write_file(folder_ / "config.json", dump_json(saved));
    if (!of_library.empty()) {
      write_file(folder_ / "config_sentence_transformers.json", of_library);
      write_file(folder_ / "modules.json", "[]");  // those of a CrossEncoder: its head answers
    }
    const auto server = test::start_server({.models = {{"model", folder_.string()}}});
    Client client(server->port());
    const auto answer = client.post(path, dump_json(body));
    if (answer.status != 200) return answer.body;
    const Json json = json_of(answer);
    return json.is_array() ? json[0]["score"] : json["results"][0]["relevance_score"];
  }
  test::TemporaryFolder folder_;
  const Json documents_{{"query", "w1 w2"}, {"documents", {"w3"}}}, texts_{{"query", "w1 w2"}, {"texts", {"w3"}}};
};

TEST_F(PairScores, AreWhatTheCheckpointSays) {
  const Json none = Json::object();
  const double plain = score(none, "", "/rerank", documents_).get<double>();
  Json raw_texts = texts_;
  raw_texts["raw_scores"] = true;
  const double logit = score(none, "", "/rerank", raw_texts).get<double>();
  EXPECT_NEAR(plain, 1 / (1 + std::exp(-logit)), 1e-6);
  const Json identity{{"sentence_transformers", {{"activation_fn", "torch.nn.modules.linear.Identity"}}}},
      old{{"sbert_ce_default_activation_function", "torch.nn.modules.linear.Identity"}},
      sigmoid{{"sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Sigmoid"}}}};
  EXPECT_NEAR(score(identity, "", "/rerank", documents_).get<double>(), logit, 1e-6);
  EXPECT_NEAR(score(old, "", "/v1/rerank", documents_).get<double>(), logit, 1e-6);
  EXPECT_NEAR(score(sigmoid, "", "/rerank", documents_).get<double>(), plain, 1e-6);
  // In the form of text-embeddings-inference the sigmoid, unless raw scores are asked for.
  EXPECT_NEAR(score(identity, "", "/rerank", texts_).get<double>(), plain, 1e-6);
  const Json strange{{"sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Softplus"}}}};
  EXPECT_NE(dump_json(score(strange, "", "/rerank", documents_)).find("Softplus"), std::string::npos);
  const std::string library = R"({"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"})";
  EXPECT_NEAR(score(none, library, "/rerank", documents_).get<double>(), logit, 1e-6);
}

TEST(ScoreFields, TheFieldThatIsWrongIsNamed) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordBert, "BertModel", R"({"cls_token": "w0"})");
  Json tokenizer = read_json(folder / "tokenizer.json");
  tokenizer["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"w1", 1}}, {"cls", {"w0", 0}}};
  write_file(folder / "tokenizer.json", dump_json(tokenizer));
  const auto server = test::start_server({.models = {{"model", folder.string()}}});
  Client client(server->port());
  const auto refused = [&](const Json& body) {
    const auto answer = client.post("/v1/rerank", dump_json(body));
    EXPECT_EQ(answer.status, 400) << answer.body;
    return json_of(answer)["error"];
  };
  EXPECT_EQ(refused({{"query", ""}, {"documents", {"w1"}}})["param"], "query");
  EXPECT_EQ(refused({{"documents", {"w1"}}})["param"], "query");
  const Json empty = refused({{"query", "w1"}, {"documents", Json::array()}});
  EXPECT_EQ(empty["param"], "documents");
  EXPECT_NE(dump_json(empty).find("empty list"), std::string::npos) << empty;
  // An empty document is ranked with the others.
  const auto ranked = client.post("/v1/rerank", dump_json({{"query", "w1"}, {"documents", {"w1", "", "w2"}}}));
  EXPECT_EQ(ranked.status, 200) << ranked.body;
  EXPECT_EQ(json_of(ranked)["results"].size(), 3u);
  const auto score = client.post("/score", dump_json({{"queries", "w1"}, {"documents", Json::array()}}));
  EXPECT_NE(score.body.find("\"param\":\"documents\""), std::string::npos) << score.body;
}

}  // namespace
}  // namespace transom
