// SPDX-License-Identifier: Apache-2.0
// Beam search over HTTP, under vLLM's names.
#include <gtest/gtest.h>

#include <map>

#include "apps/serve/golden_server.h"
#include "support/word_models.h"
#include "transom/generation.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

class BeamsOverHttp : public testing::Test {
 protected:
  BeamsOverHttp() {
    test::save_word_model(folder_, test::kWordGpt2);
    serve::ServeOptions options;
    options.models = {{"words", folder_.string()}};
    server_ = test::start_server(options);
  }
  Answer ask(const Json& fields) {
    Json body{{"prompt", Json::array({3, 4})}, {"max_tokens", 6}};
    body.update(fields);
    Client client(server_->port());
    return client.post("/v1/completions", dump_json(body));
  }
  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(BeamsOverHttp, GiveTheTextsOfGenerate) {
  const auto model = Model::from_pretrained(folder_.string());
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder_.string());
  GenerationConfig config;
  config.max_new_tokens = 6, config.num_beams = 4, config.num_return_sequences = 2, config.length_penalty = 0.5;
  NamedTensors inputs;
  inputs.set("input_ids", Tensor::from(std::vector<int64_t>{3, 4}, {1, 2}));
  const GenerationOutput expected = generate(*model, inputs, config);
  const Json fields{{"use_beam_search", true}, {"n", 2}, {"best_of", 4}, {"length_penalty", 0.5}};
  const Json answer = json_of(ask(fields));
  ASSERT_EQ(answer["choices"].size(), 2u) << answer.dump();
  for (size_t i = 0; i < 2; ++i) {
    const TokenIds tokens(expected.sequences[i].begin() + 2, expected.sequences[i].end());
    const std::string text = answer["choices"][i]["text"];
    EXPECT_EQ(text.substr(text.find_first_not_of(' ')), tokenizer.decode(tokens));
    EXPECT_EQ(answer["choices"][i]["finish_reason"], "length");
  }
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  // Streamed, each text comes when the search has ended.
  Json streamed = fields;
  streamed["stream"] = true;
  std::map<size_t, std::string> texts;
  for (const std::string& event : test::events_of(ask(streamed).body)) {
    if (event == "[DONE]") continue;
    const Json choices = parse_json(event, "event")["choices"];
    for (const Json& choice : choices) texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(texts[i], answer["choices"][i]["text"]);
}

TEST_F(BeamsOverHttp, TellLogProbabilities) {
  const Json plain = json_of(ask({{"use_beam_search", true}, {"n", 2}}));
  const Json answer = json_of(ask({{"use_beam_search", true}, {"n", 2}, {"logprobs", 1}, {"echo", true}}));
  ASSERT_EQ(answer["choices"].size(), 2u) << answer.dump();
  for (size_t i = 0; i < 2; ++i) {
    const Json choice = answer["choices"][i];
    const std::string text = choice["text"], expected = plain["choices"][i]["text"];
    EXPECT_TRUE(text.ends_with(expected)) << text;
    ASSERT_EQ(choice["logprobs"]["token_logprobs"].size(), 8u) << answer.dump();  // two of the prompt
    for (size_t t = 1; t < 8; ++t) EXPECT_LE(choice["logprobs"]["token_logprobs"][t].get<double>(), 0);
  }
  double sums[2] = {0, 0};
  for (size_t i = 0; i < 2; ++i)
    for (size_t t = 2; t < 8; ++t) sums[i] += answer["choices"][i]["logprobs"]["token_logprobs"][t].get<double>();
  EXPECT_GE(sums[0], sums[1]);  // the best first
}

TEST_F(BeamsOverHttp, AreRefusedByName) {
  const auto expect_refused = [&](const Json& fields, const std::string& word) {
    const Answer answer = ask(fields);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(word), std::string::npos) << answer.body;
  };
  expect_refused({{"use_beam_search", true}, {"n", 3}, {"best_of", 2}}, "best_of");
  expect_refused({{"best_of", 4}}, "use_beam_search");
  for (const Json& schema : {Json{{"guided_regex", "w1 w2"}}, Json{{"response_format", {{"type", "json_object"}}}}}) {
    Json fields{{"use_beam_search", true}, {"n", 2}};
    fields.update(schema);
    expect_refused(fields, "response_format");
  }
  expect_refused({{"use_beam_search", true}, {"n", 2}, {"early_stopping", "soon"}}, "early_stopping");
  expect_refused({{"use_beam_search", true}, {"best_of", 1000}}, "best_of");
}

TEST_F(BeamsOverHttp, WithoutThemTheirFieldsAreIgnored) {
  const Json plain{{"temperature", 0}};
  const Json penalised{{"temperature", 0}, {"length_penalty", 3}, {"early_stopping", true}};
  EXPECT_EQ(json_of(ask(penalised))["choices"], json_of(ask(plain))["choices"]);
}

}  // namespace
}  // namespace transom
