// SPDX-License-Identifier: Apache-2.0
// Every field that clients of some public service know stands in the table, so that none is dropped as unknown where a
// path does not read it, and is sent to every path: it is answered, or refused by its name.
#include <gtest/gtest.h>

#include <set>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/golden_server.h"
#include "apps/serve/pictures.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

// The fields of all interfaces, with a value that asks for something.
const std::vector<std::pair<std::string, Json>>& fields_of_services() {
  static const std::vector<std::pair<std::string, Json>> kAll{
      // vectors and rankings: OpenAI, vLLM, text-embeddings-inference, Jina, Voyage, Cohere, Mistral, NVIDIA
      {"dimensions", 2},
      {"normalize", false},
      {"normalized", false},
      {"use_activation", false},
      {"add_special_tokens", false},
      {"task", "retrieval.query"},
      {"late_chunking", true},
      {"embedding_type", "binary"},
      {"embedding_types", {"int8"}},
      {"input_type", "query"},
      {"output_dimension", 2},
      {"output_dtype", "int8"},
      {"prompt_name", "none of them"},
      {"instruction", "w1"},
      {"return_multivector", true},
      {"top_n", 1},
      {"raw_scores", true},
      {"return_text", true},
      {"return_documents", false},
      {"return_embeddings", true},
      {"score_threshold", 0.5},
      {"embed_dtype", "float16"},
      // conversations on paths of other forms
      {"messages", {{{"role", "user"}, {"content", "w3"}}}},
      {"system", "w3"},
      {"instructions", "w3"},
      {"system_instruction", "w3"},
      {"input", "w3"},
      {"context", {1, 2}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
      {"functions", {{{"name", "f"}}}},
      {"tool_choice", "required"},
      {"documents", {"w3"}},
      {"chat_template", "w5"},
      {"chat_template_kwargs", {{"enable_thinking", true}}},
      {"reasoning_effort", "high"},
      {"reasoning", {{"effort", "high"}}},
      {"think", true},
      {"thinking", {{"type", "enabled"}}},
      {"enable_thinking", true},
      {"thinking_budget", 3},
      {"response_format", {{"type", "json_object"}}},
      {"text", {{"format", {{"type", "json_object"}}}}},
      {"format", "json"},
      {"guided_decoding", {{"regex", "w"}}},
      // lengths, ends and how tokens are chosen, under the names of others
      {"options", {{"temperature", 2}}},
      {"parameters", {{"temperature", 2}}},
      {"extra_body", {{"top_k", 1}}},
      {"max_tokens", 2},
      {"max_completion_tokens", 2},
      {"max_output_tokens", 2},
      {"max_new_tokens", 2},
      {"max_length", 2},
      {"num_predict", 2},
      {"min_new_tokens", 9},
      {"stop_sequences", {"w1"}},
      {"stop", {"w1"}},
      {"stop_token_ids", {1}},
      {"seed", 3},
      {"temperature", 0.5},
      {"top_p", 0.5},
      {"top_k", 3},
      {"min_p", 0.5},
      {"typical_p", 0.5},
      {"repetition_penalty", 2},
      {"presence_penalty", 1},
      {"frequency_penalty", 1},
      {"logit_bias", {{"1", 5}}},
      {"top_logprobs", 2},
      {"min_tokens", 2},
      {"ignore_eos", true},
      {"guided_choice", {"w1"}},
      {"structured_outputs", {{"choice", {"w1"}}}},
      {"do_sample", false},
      {"random_seed", 9},
      {"num_beams", 2},
      {"no_repeat_ngram_size", 2},
      {"top_a", 0.5},
      {"detokenize", false},
      {"prompt_embeds", "AAAA"},
      {"input_ids", {1, 2}},
      {"safe_prompt", true},
      {"transforms", {"middle-out"}},
      {"models", {"other"}},
      {"provider", {{"order", {"x"}}}},
      {"images", {"AAAA"}},
      {"return_hidden_states", true},
      {"parse_tool_calls", false},
      {"separate_reasoning", false}};
  return kAll;
}

class OtherInterfaces : public testing::Test {
 protected:
  OtherInterfaces() {
    test::save_word_model(writer_, test::kWordGpt2);
    test::save_word_model(encoder_, test::kWordBert, "BertModel");
    test::save_word_model(classifier_, test::kWordBert, "BertForSequenceClassification");
    server_ = test::start_server(
        {.models = {{"words", writer_.string()}, {"vectors", encoder_.string()}, {"classes", classifier_.string()}}});
  }
  // Sends each field beside a request that is answered without it.
  void expect_all_known(const std::string& path, const Json& base) {
    const Answer plain = test::post(*server_, path, base);
    ASSERT_EQ(plain.status, 200) << path << plain.body;
    for (const auto& [name, value] : fields_of_services()) {
      if (base.contains(name)) continue;
      Json body = base;
      body[name] = value;
      const Answer answer = test::post(*server_, path, body);
      EXPECT_TRUE(answer.status == 200 || answer.status == 400 || answer.status == 500) << path << " " << answer.body;
      // The model has few words: a form that it cannot write ends the text so.
      if (answer.status == 500) EXPECT_NE(answer.body.find("constraint: "), std::string::npos) << answer.body;
      if (answer.status == 400) EXPECT_NE(answer.body.find(name), std::string::npos) << path << " " << answer.body;
    }
  }

  test::TemporaryFolder writer_, encoder_, classifier_;
  std::unique_ptr<serve::Server> server_;
};

TEST(FieldsOfServices, StandInTheTable) {
  std::set<std::string_view> known;
  for (const serve::KnownField& each : serve::known_fields())
    EXPECT_TRUE(known.insert(each.name).second) << each.name << " stands twice";
  for (const auto& [name, value] : fields_of_services()) EXPECT_TRUE(known.contains(name)) << name;
}

TEST_F(OtherInterfaces, FieldsAreKnownOnPathsThatWrite) {
  const Json user = Json::array({{{"role", "user"}, {"content", "w1 w2"}}});
  expect_all_known("/v1/chat/completions",
                   {{"model", "words"}, {"messages", user}, {"max_tokens", 2}, {"temperature", 0}});
  expect_all_known("/v1/completions", {{"model", "words"}, {"prompt", "w1"}, {"max_tokens", 2}, {"temperature", 0}});
  expect_all_known("/v1/responses",
                   {{"model", "words"}, {"input", "w1"}, {"max_output_tokens", 2}, {"temperature", 0}});
  expect_all_known("/v1/messages", {{"model", "words"}, {"messages", user}, {"max_tokens", 2}});
  expect_all_known("/api/chat", {{"model", "words"}, {"messages", user}, {"stream", false}});
  expect_all_known("/api/generate", {{"model", "words"}, {"prompt", "w1"}, {"stream", false}});
  expect_all_known("/generate", {{"model", "words"}, {"inputs", "w1"}, {"parameters", {{"max_new_tokens", 2}}}});
}

TEST_F(OtherInterfaces, FieldsAreKnownOnPathsOfEncoders) {
  expect_all_known("/v1/embeddings", {{"model", "vectors"}, {"input", "w1 w2"}});
  expect_all_known("/pooling", {{"model", "vectors"}, {"input", "w1 w2"}});
  expect_all_known("/rerank", {{"model", "vectors"}, {"query", "w1"}, {"documents", {"w1", "w2"}}});
  expect_all_known("/score", {{"model", "vectors"}, {"text_1", "w1"}, {"text_2", "w2"}});
  expect_all_known("/classify", {{"model", "classes"}, {"input", "w1"}});
  expect_all_known("/embed", {{"model", "vectors"}, {"inputs", "w1"}});
  expect_all_known("/predict", {{"model", "classes"}, {"inputs", "w1"}});
}

// False asks for something where true is what happens.
TEST_F(OtherInterfaces, FalseIsNoAbsence) {
  const Json texts{{"model", "classes"}, {"input", "w1"}};
  Json asks = texts, asks_not = texts;
  asks["add_special_tokens"] = false, asks_not["add_special_tokens"] = true;
  EXPECT_EQ(test::post(*server_, "/classify", asks).status, 400);
  EXPECT_EQ(test::post(*server_, "/classify", asks_not).status, 200);
}

// Vectors are cut as they are asked for: at length 1, or as they are.
TEST_F(OtherInterfaces, CutVectorsHaveTheLengthThatIsAskedFor) {
  const auto vector = [&](const char* path, const Json& more) {
    Json body{{"model", "vectors"}, {"input", "w1 w2"}, {"inputs", "w1 w2"}};
    body.erase(std::string(path) == "/embed" ? "input" : "inputs");
    body.update(more);
    const Answer answer = test::post(*server_, path, body);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    const Json json = json_of(answer);
    if (json.is_array()) return json[0].get<std::vector<double>>();
    return json["data"][0][std::string(path) == "/pooling" ? "data" : "embedding"].get<std::vector<double>>();
  };
  for (const char* path : {"/v1/embeddings", "/pooling", "/embed"}) {
    const std::vector<double> whole = vector(path, {{"normalize", false}});
    const std::vector<double> cut = vector(path, {{"normalize", false}, {"dimensions", 3}});
    ASSERT_EQ(cut.size(), 3u) << path;
    for (size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(cut[i], whole[i]) << path;
    double square = 0;
    for (const double each : vector(path, {{"dimensions", 3}})) square += each * each;
    EXPECT_NEAR(square, 1, 1e-5) << path;
  }
  EXPECT_EQ(vector("/v1/embeddings", {{"use_activation", false}}), vector("/v1/embeddings", {{"normalize", false}}));
}

TEST_F(OtherInterfaces, MediaOfDocumentsAreRefused) {
  const Json body{{"model", "vectors"}, {"query", "w1"}, {"documents", {{{"text", "w1"}, {"image", "data:,"}}}}};
  const Answer answer = test::post(*server_, "/v1/rerank", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("'image'"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace transom
