// SPDX-License-Identifier: Apache-2.0
// vLLM's JSON of drafts, and a server that drafts by itself.
#include "apps/serve/api/speculative_config.h"

#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"
#include "files/checkpoint/safetensors.h"
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
  const serve::ServeOptions eagle = options_of(R"({"method": "eagle3", "model": "HEAD", "num_speculative_tokens": 3})");
  EXPECT_EQ(eagle.drafts.method, DraftOptions::Method::kHead);
  EXPECT_EQ(eagle.draft_head, "HEAD");
  EXPECT_EQ(eagle.drafts.tokens, 3);
  for (const char* method : {"mtp", "deepseek_mtp", "qwen3_next_mtp"}) {
    const serve::ServeOptions mtp = options_of(fmt::format(R"({{"method": "{}"}})", method));
    EXPECT_EQ(mtp.drafts.method, DraftOptions::Method::kHead);
    EXPECT_EQ(mtp.draft_head, "");
  }
}

TEST(SpeculativeConfig, RefusesWhatItDoesNotCarryOut) {
  const std::vector<std::pair<const char*, const char*>> refused{
      {"[]", "object"},
      {"{}", "method"},
      {R"({"method": "medusa"})", "medusa"},
      {R"({"method": "draft_model"})", "model"},
      {R"({"method": "suffix", "model": "SMALL"})", "no \"model\""},
      {R"({"method": "mtp", "model": "SMALL"})", "no \"model\""},
      {R"({"method": "eagle3"})", "directory of the head"},
      {R"({"method": "eagle3", "model": "HEAD", "prompt_lookup_max": 3})", "prompt_lookup_max"},
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

// A model with a head of multi-token prediction behind its two layers, and a head of EAGLE-3: their weights are some of
// the model's that have the same shapes.
class HeadServer : public testing::Test {
 protected:
  HeadServer() {
    Json config = parse_json(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 12,
      "max_position_embeddings": 64, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
      "intermediate_size": 32, "initializer_range": 0.5})",
                             "config");
    test::save_word_model(model_, dump_json(config).c_str());
    const SafetensorsFile saved = SafetensorsFile::open(model_ / "model.safetensors");
    NamedViews whole = saved.tensors(), eagle;
    const TensorView norm = *saved.find("model.norm.weight");
    const auto joins = [&](int layer) {
      return *saved.find(fmt::format("model.layers.{}.mlp.down_proj.weight", layer));
    };
    for (const char* name : {"enorm", "hnorm", "shared_head.norm"})
      whole.emplace_back(fmt::format("model.layers.2.{}.weight", name), norm);
    whole.emplace_back("model.layers.2.eh_proj.weight", joins(0));
    for (const auto& [name, view] : saved.tensors())
      if (const std::string begin = "model.layers.2."; name.starts_with(begin) && view.shape.size() == 2)
        eagle.emplace_back("midlayer." + name.substr(begin.size()), name.find("self_attn") == name.npos ? view
                                                                    : name.find("o_proj") != name.npos  ? view
                                                                                                        : joins(1));
    for (const char* name :
         {"midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm"})
      eagle.emplace_back(std::string(name) + ".weight", norm);
    eagle.emplace_back("fc.weight", joins(0));
    eagle.emplace_back("lm_head.weight", *saved.find("lm_head.weight"));
    write_safetensors(head_ / "model.safetensors", eagle);
    write_safetensors(model_ / "whole.safetensors", whole);
    std::filesystem::rename(model_ / "whole.safetensors", model_ / "model.safetensors");
    config["num_hidden_layers"] = 2;
    write_file(model_ / "config.json", dump_json(config));
    config["num_hidden_layers"] = 1, config["eagle_aux_hidden_state_layer_ids"] = {0, 1};
    write_file(head_ / "config.json", dump_json(config));
    options_.models = {{"words", model_.string()}};
  }
  serve::ServeOptions with(const Json& config) const {
    serve::ServeOptions options = options_;
    serve::read_speculative_config(dump_json(config), options);
    options.drafts.measured = false;
    return options;
  }

  test::TemporaryFolder model_, head_;
  serve::ServeOptions options_;
};

TEST_F(HeadServer, AnswersSeveralAtOnceAsWithoutAndCounts) {
  const auto plain = test::start_server(options_);
  const auto asked = [](const serve::Server& server) {
    std::vector<Json> answers(4);
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i)
      clients.emplace_back([&answers, &server, i] {
        const Json body{{"prompt", Json::array({3 + i, 4})}, {"max_tokens", 20}, {"temperature", i % 2}, {"seed", i}};
        answers[static_cast<size_t>(i)] =
            json_of(Client(server.port()).post("/v1/completions", dump_json(body)))["choices"];
      });
    for (std::thread& client : clients) client.join();
    return answers;
  };
  const std::vector<Json> expected = asked(*plain);
  ASSERT_TRUE(expected[0].is_array());
  for (const Json& config : {Json{{"method", "mtp"}}, Json{{"method", "eagle3"}, {"model", head_.string()}}}) {
    const auto server = test::start_server(with(config));
    EXPECT_EQ(asked(*server), expected) << config.dump();
    EXPECT_GT(number_of(*server, "vllm:spec_decode_num_draft_tokens_total{"), 0) << config.dump();
  }
}

TEST_F(HeadServer, RefusesTheHeadOfAnotherModel) {
  Json config = parse_json(read_file(head_ / "config.json"), "config");
  config["vocab_size"] = 13;
  write_file(head_ / "config.json", dump_json(config));
  const std::string message = test::message_of([&] {
    test::start_server(with({{"method", "eagle3"}, {"model", head_.string()}}));
  });
  EXPECT_NE(message.find("the head is for 13 tokens, the model has 12"), message.npos) << message;
}

}  // namespace
}  // namespace transom
