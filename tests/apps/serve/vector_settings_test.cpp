// SPDX-License-Identifier: Apache-2.0
// Texts that are longer than an encoder takes, and the length of vectors, on the paths of each interface.
#include <gtest/gtest.h>

#include <cmath>

#include "apps/serve/golden_server.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

class VectorSettings : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folders_ = new test::TemporaryFolder[3];
    test::save_word_model(folders_[0], test::kWordBert, "BertForSequenceClassification");
    test::save_word_model(folders_[1], test::kWordBert, "BertModel");
    test::save_word_model(folders_[2], test::kWordBert, "BertModel");
    write_file(folders_[2] / "modules.json", R"([{"idx": 0, "name": "0", "path": "",
        "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling",
        "type": "sentence_transformers.models.Pooling"}])");
    std::filesystem::create_directory(folders_[2] / "1_Pooling");
    write_file(folders_[2] / "config_sentence_transformers.json", R"({"prompts": {"query": "w5 w6 "}})");
    write_file(folders_[2] / "1_Pooling" / "config.json",
               R"({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": true})");
    server_ = test::start_server({.models = {{"classes", folders_[0].string()},
                                             {"vectors", folders_[1].string()},
                                             {"sentences", folders_[2].string()}}})
                  .release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete[] folders_;
  }

  static test::Answer ask(const std::string& path, const Json& body) {
    Client client(server_->port());
    return client.post(path, dump_json(body));
  }
  static Json answer(const std::string& path, const Json& body) {
    const test::Answer answer = ask(path, body);
    EXPECT_EQ(answer.status, 200) << path << " " << dump_json(body) << answer.body;
    return json_of(answer);
  }
  // w1 w2 ... with the words of `from` to `to`.
  static std::string words(int from, int to) {
    std::string text;
    for (int i = from; i < to; ++i) text += (text.empty() ? "w" : " w") + std::to_string(i * 7 % 11);
    return text;
  }
  // The models take 32 tokens.
  static inline const std::string long_ = words(0, 40);
  static Json with(Json body, const Json& more) {
    body.update(more);
    return body;
  }
  static inline test::TemporaryFolder* folders_ = nullptr;
  static inline serve::Server* server_ = nullptr;
};

TEST_F(VectorSettings, TooLongTextsAreRefusedAsTeiDoesIt) {
  const std::vector<std::pair<std::string, Json>> requests{
      {"/rerank", {{"model", "classes"}, {"query", "w1"}, {"texts", {long_}}}},
      {"/rerank", {{"model", "vectors"}, {"query", "w1"}, {"texts", {long_}}}},
      {"/predict", {{"model", "classes"}, {"inputs", long_}}},
      {"/embed", {{"model", "vectors"}, {"inputs", long_}}},
      {"/embed_all", {{"model", "vectors"}, {"inputs", long_}}},
      {"/similarity", {{"model", "vectors"}, {"inputs", {{"source_sentence", "w1"}, {"sentences", {long_}}}}}}};
  for (const auto& [path, body] : requests) {
    const test::Answer refused = ask(path, body);
    EXPECT_EQ(refused.status, 413) << path << refused.body;
    EXPECT_EQ(json_of(refused)["error_type"], "validation");
    EXPECT_NE(refused.body.find("maximum context length is 32 tokens"), std::string::npos) << refused.body;
    EXPECT_NE(refused.body.find("set truncate to true"), std::string::npos) << refused.body;
    const Json more = path == "/similarity" ? Json{{"parameters", {{"truncate", true}}}} : Json{{"truncate", true}};
    answer(path, with(body, more));
  }
}

TEST_F(VectorSettings, TextsAreCutAtTheSideThatIsAskedFor) {
  const auto rank = [](const std::string& text, const Json& more) {
    return answer("/rerank", with({{"model", "classes"}, {"query", "w1"}, {"texts", {text}}}, more))[0]["score"];
  };
  const Json right{{"truncate", true}}, left{{"truncate", true}, {"truncation_direction", "Left"}};
  EXPECT_EQ(rank(long_, right), rank(words(0, 31), Json::object()));
  EXPECT_EQ(rank(long_, left), rank(words(9, 40), Json::object()));
  EXPECT_NE(rank(long_, right), rank(long_, left));
  const auto classes = [](const std::string& text, const Json& more) {
    return answer("/predict", with({{"model", "classes"}, {"inputs", text}}, more));
  };
  EXPECT_EQ(classes(long_, left), classes(words(8, 40), Json::object()));
  const auto vector = [](const std::string& text, const Json& more) {
    return answer("/embed", with({{"model", "vectors"}, {"inputs", text}}, more));
  };
  EXPECT_EQ(vector(long_, left), vector(words(8, 40), Json::object()));
}

TEST_F(VectorSettings, TooLongTextsAsVllmReadsThem) {
  const std::vector<std::pair<std::string, Json>> requests{
      {"/v1/rerank", {{"model", "classes"}, {"query", "w1"}, {"documents", {long_}}}},
      {"/rerank", {{"model", "vectors"}, {"query", "w1"}, {"documents", {long_}}}},
      {"/score", {{"model", "classes"}, {"text_1", "w1"}, {"text_2", long_}}},
      {"/classify", {{"model", "classes"}, {"input", long_}}},
      {"/pooling", {{"model", "classes"}, {"input", long_}}},
      {"/pooling", {{"model", "vectors"}, {"input", long_}}},
      {"/v1/embeddings", {{"model", "vectors"}, {"input", long_}}}};
  for (const auto& [path, body] : requests) {
    const test::Answer refused = ask(path, body);
    EXPECT_EQ(refused.status, 400) << path << refused.body;
    EXPECT_EQ(json_of(refused)["error"]["code"], "context_length_exceeded");
    EXPECT_NE(refused.body.find("set truncate_prompt_tokens to -1"), std::string::npos) << refused.body;
    const auto tokens = [](const Json& json) { return json["usage"]["prompt_tokens"].get<int64_t>(); };
    const bool of_two = path.find("rerank") != path.npos && body["model"] == "vectors";
    EXPECT_EQ(tokens(answer(path, with(body, {{"truncate_prompt_tokens", -1}}))), of_two ? 33 : 32) << path;
    EXPECT_EQ(tokens(answer(path, with(body, {{"truncate_prompt_tokens", 6}}))), of_two ? 7 : 6) << path;
  }
}

TEST_F(VectorSettings, DocumentsHaveALimitOfTheirOwn) {
  const auto rank = [](const std::string& query, const std::string& text, const Json& more) {
    return answer("/rerank", with({{"model", "classes"}, {"query", query}, {"documents", {text}}}, more));
  };
  const auto score = [](const Json& json) { return json["results"][0]["relevance_score"]; };
  const Json cut = rank("w1", long_, {{"max_tokens_per_doc", 3}});
  EXPECT_EQ(score(cut), score(rank("w1", words(0, 3), Json::object())));
  EXPECT_EQ(cut["results"][0]["document"]["text"], long_);
  EXPECT_EQ(score(rank("w1 w2 w3", "w4", {{"max_tokens_per_query", 2}})), score(rank("w1 w2", "w4", Json::object())));
}

// tests/wild/serve: 17-errors-that-name-another-field.
TEST_F(VectorSettings, ErrorsNameTheFieldThatIsWrong) {
  for (const char* model : {"classes", "vectors"}) {
    struct Case {
      const char* path;
      Json body;
      const char* param;
      const char* text;
    };
    for (const Case& each :
         {Case{"/v1/rerank", {{"query", ""}, {"documents", {"w1"}}}, "query", "not empty"},
          Case{"/v1/rerank", {{"documents", {"w1"}}}, "query", "missing"},
          Case{"/v1/rerank", {{"query", "w1"}, {"documents", Json::array()}}, "documents", "found an empty list"},
          Case{"/v1/rerank", {{"query", "w1"}}, "documents", "missing"},
          Case{"/v1/rerank", {{"query", long_}, {"documents", {"w1"}}}, nullptr, "maximum context length"},
          Case{"/v1/score", {{"text_1", "w1"}, {"text_2", Json::array()}}, "text_2", "found an empty list"},
          Case{
              "/v1/score", {{"queries", {"w1", "w2"}}, {"documents", {"w1"}}}, "documents", "as many texts as queries"},
          Case{"/v1/score", {{"text_2", "w1"}}, "text_1", "missing"}}) {
      const test::Answer answer = ask(each.path, with(each.body, {{"model", model}}));
      EXPECT_EQ(answer.status, 400) << each.path << " " << dump_json(each.body);
      const Json error = json_of(answer)["error"];
      if (each.param) {
        EXPECT_EQ(error["param"], each.param) << answer.body;
      }
      EXPECT_NE(error["message"].get<std::string>().find(each.text), std::string::npos) << answer.body;
    }
    // One document that says nothing leaves the others as they are.
    const Json ranked = answer("/v1/rerank", {{"model", model}, {"query", "w1"}, {"documents", {"w1 w2", "", "w3"}}}),
               alone = answer("/v1/rerank", {{"model", model}, {"query", "w1"}, {"documents", {"w1 w2", "w3"}}});
    ASSERT_EQ(ranked["results"].size(), 3u);
    const auto score_of = [](const Json& results, int index) {
      for (const Json& each : results)
        if (each["index"] == index) return each["relevance_score"].get<double>();
      return -2.0;
    };
    EXPECT_EQ(score_of(ranked["results"], 0), score_of(alone["results"], 0));
    EXPECT_EQ(score_of(ranked["results"], 2), score_of(alone["results"], 1));
  }
  const test::Answer long_query = ask("/v1/rerank", {{"model", "vectors"}, {"query", long_}, {"documents", {"w1"}}});
  EXPECT_EQ(json_of(long_query)["error"]["param"], "query") << long_query.body;
  const test::Answer source =
      ask("/similarity", {{"model", "vectors"}, {"inputs", {{"source_sentence", ""}, {"sentences", {"w1"}}}}});
  EXPECT_NE(source.body.find("inputs.source_sentence"), std::string::npos) << source.body;
}

// vLLM's use_activation.
TEST_F(VectorSettings, ScoresAreRawWhereNoActivationIsWanted) {
  const Json body{{"model", "classes"}, {"input", "w1 w2"}};
  const auto scores = [&](const char* path, const Json& more, const char* field) {
    return answer(path, with(body, more))["data"][0][field].get<std::vector<double>>();
  };
  for (const auto& [path, field] : {std::pair{"/classify", "probs"}, std::pair{"/pooling", "data"}}) {
    const auto as_model = scores(path, Json::object(), field), raw = scores(path, {{"use_activation", false}}, field);
    ASSERT_EQ(as_model.size(), raw.size());
    EXPECT_NE(as_model, raw);
    EXPECT_EQ(as_model, scores(path, {{"activation", true}}, field));
    double sum = 0;
    for (const double each : raw) sum += std::exp(each);
    for (size_t i = 0; i < raw.size(); ++i) EXPECT_NEAR(as_model[i], std::exp(raw[i]) / sum, 1e-5) << path;
  }
  EXPECT_EQ(ask("/pooling", {{"model", "vectors"}, {"input", "w1"}, {"activation", false}}).status, 400);
}

TEST_F(VectorSettings, PromptsAreOfModelsThatHaveThem) {
  for (const char* model : {"classes", "vectors"}) {
    const test::Answer refused =
        ask("/rerank", {{"model", model}, {"query", "w1"}, {"texts", {"w2"}}, {"prompt_name", "query"}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("prompt_name: expected nothing, since this model has no prompts"), std::string::npos)
        << refused.body;
    EXPECT_EQ(ask("/tokenize", {{"model", model}, {"inputs", "w2"}, {"prompt_name", "query"}}).status, 400);
    EXPECT_EQ(ask("/tokenize", {{"model", model}, {"messages", Json::array()}, {"split_special_tokens", true}}).status,
              400);
  }
}

TEST_F(VectorSettings, VectorsAndClassesAreCountedApart) {
  answer("/predict", {{"model", "classes"}, {"inputs", "w1"}});
  answer("/embed", {{"model", "vectors"}, {"inputs", "w1"}});
  Client client(server_->port());
  const std::string text = client.get("/metrics").body;
  for (const char* there : {"te_predict_count{model_name=\"classes\"}", "te_predict_success{model_name=\"classes\"}",
                            "te_embed_count{model_name=\"vectors\"}"})
    EXPECT_NE(text.find(there), std::string::npos) << there;
  EXPECT_EQ(text.find("te_embed_count{model_name=\"classes\"}"), std::string::npos);
}

TEST_F(VectorSettings, PromptsAreBeforeTokensToo) {
  const Json prompted =
      answer("/tokenize", {{"model", "sentences"}, {"inputs", {"w1", "w2"}}, {"prompt_name", "query"}});
  EXPECT_EQ(prompted[1].size(), 3u);
  EXPECT_EQ(prompted[1][0]["text"], "w5");
  EXPECT_EQ(answer("/embed", {{"model", "sentences"}, {"inputs", "w1"}, {"prompt_name", "query"}}),
            answer("/embed", {{"model", "sentences"}, {"inputs", "w5 w6 w1"}}));
}

// As vLLM and text-embeddings-inference: only modules.json can say that vectors keep their length.
TEST_F(VectorSettings, VectorsHaveLengthOneUnlessTheModelSaysHow) {
  const auto length = [](const Json& vector) {
    double sum = 0;
    for (const Json& each : vector) sum += each.get<double>() * each.get<double>();
    return std::sqrt(sum);
  };
  const auto embedded = [&](const std::string& path, const std::string& model, const Json& more) {
    const Json item = answer(path, with({{"model", model}, {"input", "w1 w2"}}, more))["data"][0];
    return length(item.contains("embedding") ? item["embedding"] : item["data"]);
  };
  for (const char* path : {"/v1/embeddings", "/pooling"}) {
    EXPECT_NEAR(embedded(path, "vectors", Json::object()), 1, 1e-5) << path;
    EXPECT_GT(embedded(path, "vectors", {{"normalize", false}}), 1.5) << path;
    EXPECT_GT(embedded(path, "sentences", Json::object()), 1.5) << path;
    EXPECT_NEAR(embedded(path, "sentences", {{"normalize", true}}), 1, 1e-5) << path;
  }
  EXPECT_NEAR(length(answer("/embed", {{"model", "sentences"}, {"inputs", "w1 w2"}})[0]), 1, 1e-5);
}

}  // namespace
}  // namespace transom
