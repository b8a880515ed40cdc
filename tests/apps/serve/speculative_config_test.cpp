// SPDX-License-Identifier: Apache-2.0
// vLLM's JSON of drafts, and a server that drafts by itself.
#include "apps/serve/api/speculative_config.h"

#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/message.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

serve::ServeOptions options_of(const std::string& text) {
  serve::ServeOptions options;
  serve::read_speculative_config(text, options);
  return options;
}

TEST(SpeculativeConfig, SaysWhatIsDraftedWith) {
  const serve::ServeOptions small = options_of(R"({"model": "SMALL", "num_speculative_tokens": 3})");
  EXPECT_EQ(small.assistant_model, "SMALL");
  EXPECT_EQ(small.num_assistant_tokens, 3);
  const DraftOptions ngram =
      options_of(R"({"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 7})").drafts;
  EXPECT_EQ(ngram.method, DraftOptions::Method::kLookup);
  EXPECT_EQ(ngram.lookup_most, 4);
  EXPECT_EQ(ngram.lookup_least, 4);
  EXPECT_EQ(ngram.tokens, 7);
  EXPECT_TRUE(ngram.measured);
  const DraftOptions suffix = options_of(R"({"method": "suffix", "suffix_decoding_max_tree_depth": 12,
    "suffix_decoding_max_spec_factor": 2.5, "suffix_decoding_min_token_prob": 0.2,
    "suffix_decoding_max_cached_requests": 0})")
                                  .drafts;
  EXPECT_EQ(suffix.method, DraftOptions::Method::kSuffix);
  EXPECT_EQ(suffix.suffix_depth, 12);
  EXPECT_EQ(suffix.tokens, 12);
  EXPECT_EQ(suffix.suffix_factor, 2.5);
  EXPECT_EQ(suffix.suffix_least, 0.2);
  EXPECT_EQ(suffix.suffix_bytes, 0);
}

TEST(SpeculativeConfig, RefusesWhatItDoesNotCarryOut) {
  const std::vector<std::pair<const char*, const char*>> refused{
      {"[]", "object"},
      {"{}", "method"},
      {R"({"method": "medusa"})", "medusa"},
      {R"({"method": "draft_model"})", "model"},
      {R"({"method": "suffix", "model": "SMALL"})", "no \"model\""},
      {R"({"method": "suffix", "prompt_lookup_max": 3})", "prompt_lookup_max"},
      {R"({"method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 3})", "prompt_lookup_min"},
      {R"({"method": "ngram", "num_speculative_tokens": 0})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 1.5})", "num_speculative_tokens"},
      {R"({"method": "suffix", "suffix_decoding_min_token_prob": 2})", "suffix_decoding_min_token_prob"},
      {R"({"method": "suffix", "suffix_decoding_max_cached_requests": 50})", "MiB"},
      {R"({"model": "SMALL", "draft_tensor_parallel_size": 2})", "draft_tensor_parallel_size"}};
  for (const auto& each : refused)
    EXPECT_NE(test::message_of([&] { options_of(each.first); }).find(each.second), std::string::npos) << each.first;
  serve::ServeOptions both;
  both.assistant_model = "SMALL";
  EXPECT_NE(test::message_of([&] {
              serve::read_speculative_config(R"({"method": "suffix"})", both);
            }).find("--assistant_model"),
            std::string::npos);
}

double number_of(const serve::Server& server, const std::string& start) {
  const std::string text = Client(server.port()).get("/metrics").body;
  const size_t line = text.find("\n" + start);
  if (line == text.npos) return -1;
  return std::stod(text.substr(text.find('}', line) + 1));
}

TEST(DraftingServer, AnswersAsWithoutAndCounts) {
  test::TemporaryFolder model;
  test::save_word_model(model, test::kWordGpt2);
  serve::ServeOptions options;
  options.models = {{"words", model.string()}};
  const auto plain = test::start_server(options);
  for (const char* config : {R"({"method": "suffix"})", R"({"method": "ngram", "prompt_lookup_min": 1})"}) {
    serve::ServeOptions drafting = options;
    serve::read_speculative_config(config, drafting);
    const auto server = test::start_server(drafting);
    for (int turn = 0; turn < 2; ++turn)
      for (const Json& fields : {Json{{"temperature", 0}}, Json{{"temperature", 1}, {"seed", 5}}}) {
        Json body{{"prompt", Json::array({3, 4})}, {"max_tokens", 30}};
        body.update(fields);
        const Json answer = json_of(Client(server->port()).post("/v1/completions", dump_json(body)));
        ASSERT_TRUE(answer.contains("choices")) << answer.dump();
        EXPECT_EQ(answer["choices"],
                  json_of(Client(plain->port()).post("/v1/completions", dump_json(body)))["choices"]);
      }
    EXPECT_GT(number_of(*server, "vllm:spec_decode_num_drafts_total{"), 0) << config;
    const std::string places = Client(server->port()).get("/metrics").body;
    EXPECT_NE(places.find("vllm:spec_decode_num_accepted_tokens_per_pos_total{"), places.npos);
    EXPECT_NE(places.find("position=\"0\""), places.npos);
    EXPECT_GE(number_of(*server, "transom_steps_without_drafts_total{"), 0);
  }
}

}  // namespace
}  // namespace transom
