// SPDX-License-Identifier: Apache-2.0
// The engine on models made from a configuration: a request gets what generate() gives, with all that belongs to it.
#include "transom/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/message.h"
#include "support/save_adapter.h"
#include "support/temporary_folder.h"
#include "transom/config.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kDecoder = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30,
  "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kGroupedDecoder =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30,
  "max_position_embeddings": 100, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 20, "initializer_range": 0.6})";
constexpr const char* kAlibi = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 30,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})";
constexpr const char* kEncoderDecoder = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 30, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 100,
  "init_std": 0.6, "is_encoder_decoder": true, "decoder_start_token_id": 2, "pad_token_id": 1})";

// Tokens are the letters from a on.
const Tokenizer& letters() {
  static const Tokenizer tokenizer = [] {
    Json vocabulary = Json::object();
    for (int i = 0; i < 30; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
    return Tokenizer::from_json(
        dump_json(Json{{"version", "1.0"},
                       {"added_tokens", Json::array()},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", nullptr},
                       {"post_processor", nullptr},
                       {"decoder", {{"type", "Fuse"}}},
                       {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "A"}}}}));
  }();
  return tokenizer;
}

struct Result {
  TokenIds tokens;
  std::string text;
  std::vector<TokenLogprobs> logprobs, prompt;
  EngineEvent last;
};
using Results = std::map<std::pair<uint64_t, int64_t>, Result>;

void collect(Engine& engine, Results& results) {
  for (EngineEvent& event : engine.take()) {
    Result& result = results[{event.request, event.index}];
    EXPECT_FALSE(result.last.finish) << "an event behind the last one";
    result.tokens.insert(result.tokens.end(), event.tokens.begin(), event.tokens.end());
    result.text += event.text;
    result.logprobs.insert(result.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    result.prompt.insert(result.prompt.end(), event.prompt.begin(), event.prompt.end());
    result.last = std::move(event);
  }
}

Results ended_requests(Engine& engine) {
  Results results;
  while (engine.step()) collect(engine, results);
  collect(engine, results);
  for (const auto& [key, result] : results) EXPECT_TRUE(result.last.finish) << key.first;
  return results;
}

EngineRequest request_of(TokenIds prompt, const std::string& options) {
  EngineRequest request{.prompt = std::move(prompt)};
  request.config.update(options);
  return request;
}

TokenIds generated_alone(const Model& model, const EngineRequest& request) {
  TokenIds tokens = generate(model, request.prompt, request.config).sequences.at(0);
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(request.prompt.tokens.size()));
  return tokens;
}

std::string text_of(const TokenIds& tokens) { return letters().decode(tokens); }

class EveryKind : public testing::TestWithParam<const char*> {
 protected:
  EngineRequest request(TokenIds prompt, const std::string& options) const {
    EngineRequest made = request_of(std::move(prompt), options);
    if (model->config().get_string("model_type") == "bart") {
      made.prompt.attached = {{.tensors = {{"input_ids", Tensor::from(std::vector<int64_t>{5, 6, 7, 2}, {1, 4})},
                                           {"attention_mask", Tensor::from(std::vector<int64_t>{1, 1, 1, 1}, {1, 4})}},
                               .places = {}}};
      made.prompt.tokens.insert(made.prompt.tokens.begin(), 2);
      made.config.decoder_start_token_id = 2;
    }
    return made;
  }
  const std::unique_ptr<Model> model = Model::from_config(GetParam());
};

TEST_P(EveryKind, WritesWhatGenerateWrites) {
  Engine engine(*model, {.tokenizer = &letters()});
  std::map<uint64_t, EngineRequest> requests;
  for (const EngineRequest& one :
       {request({3, 14, 15, 9}, R"({"max_new_tokens": 20})"), request({4}, R"({"max_new_tokens": 7})"),
        request({1, 2, 3, 4, 5, 6, 7, 8}, R"({"max_new_tokens": 12, "repetition_penalty": 1.5, "min_new_tokens": 3})"),
        request({11, 3}, R"({"max_new_tokens": 20, "do_sample": true, "seed": 7, "top_k": 10, "temperature": 0.8})")})
    requests[engine.add(one)] = one;
  const Results results = ended_requests(engine);
  ASSERT_EQ(results.size(), requests.size());
  for (const auto& [id, one] : requests) {
    const Result& result = results.at({id, 0});
    EXPECT_EQ(result.tokens, generated_alone(*model, one));
    EXPECT_EQ(result.last.finish, FinishReason::kLength) << result.last.error;
    EXPECT_EQ(result.text, text_of(result.tokens));
  }
  EXPECT_EQ(engine.statistics().running, 0);
  EXPECT_EQ(engine.statistics().waiting, 0);
  EXPECT_EQ(engine.statistics().blocks_used, 0);
}

TEST_P(EveryKind, GivesLogProbabilities) {
  Engine engine(*model);
  EngineRequest one = request({3, 14, 15}, R"({"max_new_tokens": 5})");
  one.logprobs = 3, one.prompt_logprobs = 1;
  engine.add(one);
  const Result result = ended_requests(engine).begin()->second;
  ASSERT_EQ(result.logprobs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const TokenLogprobs& at = result.logprobs[i];
    EXPECT_EQ(at.token, result.tokens[i]);
    ASSERT_EQ(at.top.size(), 3u);
    EXPECT_EQ(at.top[0], std::pair(at.token, at.logprob));
    EXPECT_GE(at.top[0].second, at.top[1].second);
    EXPECT_LT(at.logprob, 0);
  }
  ASSERT_EQ(result.prompt.size(), one.prompt.tokens.size() - 1);
  for (size_t i = 0; i + 1 < one.prompt.tokens.size(); ++i) {
    EXPECT_EQ(result.prompt[i].token, one.prompt.tokens[i + 1]);
    EXPECT_LE(result.prompt[i].logprob, result.prompt[i].top.at(0).second);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryKind, testing::Values(kDecoder, kGroupedDecoder, kAlibi, kEncoderDecoder),
                         [](const auto& info) { return std::to_string(info.index); });

class OnGpt2 : public testing::Test {
 protected:
  const std::unique_ptr<Model> model = Model::from_config(kDecoder);
  Engine engine{*model, {.tokenizer = &letters()}};
};

TEST_F(OnGpt2, EndsWithATokenThatEndsTexts) {
  const TokenIds all = generated_alone(*model, request_of({3, 14}, R"({"max_new_tokens": 20})"));
  EngineRequest request = request_of({3, 14}, R"({"max_new_tokens": 20})");
  request.config.eos_token_id = {all[4]};
  engine.add(request);
  const Result result = ended_requests(engine).begin()->second;
  const auto end = std::find(all.begin(), all.end(), all[4]);
  EXPECT_EQ(result.tokens, TokenIds(all.begin(), end));
  EXPECT_EQ(result.last.finish, FinishReason::kStop);
  EXPECT_EQ(result.last.end_token, all[4]);
}

TEST_F(OnGpt2, EndsWithAStopString) {
  const TokenIds all = generated_alone(*model, request_of({3, 14}, R"({"max_new_tokens": 20})"));
  EngineRequest request = request_of({3, 14}, R"({"max_new_tokens": 20})");
  const std::string text = text_of(all);
  request.config.stop_strings = {text.substr(6, 2)};
  engine.add(request);
  const Result result = ended_requests(engine).begin()->second;
  EXPECT_EQ(result.text, text.substr(0, text.find(text.substr(6, 2))));
  EXPECT_EQ(result.last.stop, text.substr(6, 2));
}

TEST_F(OnGpt2, SequencesOfARequestDrawOnTheirOwn) {
  const std::string options = R"({"max_new_tokens": 12, "do_sample": true, "seed": 5, "num_return_sequences": 3})";
  engine.add(request_of({3, 14, 15}, options));
  const Results three = ended_requests(engine);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_NE(three.at({1, 0}).tokens, three.at({1, 1}).tokens);
  EXPECT_NE(three.at({1, 1}).tokens, three.at({1, 2}).tokens);
  EngineRequest two = request_of({3, 14, 15}, options);
  two.config.num_return_sequences = 2;
  engine.add(two);
  const Results fewer = ended_requests(engine);
  for (const int64_t i : {0, 1}) EXPECT_EQ(fewer.at({2, i}).tokens, three.at({1, i}).tokens);
}

TEST_F(OnGpt2, CancelledRequestsEnd) {
  const uint64_t running = engine.add(request_of({3, 14}, R"({"max_new_tokens": 50})"));
  engine.step();
  const uint64_t waiting = engine.add(request_of({3}, R"({"max_new_tokens": 50, "num_return_sequences": 1})"));
  engine.cancel(running);
  engine.cancel(waiting);
  engine.cancel(12345);
  const Results results = ended_requests(engine);
  EXPECT_EQ(results.at({running, 0}).last.finish, FinishReason::kCancelled);
  EXPECT_EQ(results.at({waiting, 0}).last.finish, FinishReason::kCancelled);
  EXPECT_LE(results.at({running, 0}).tokens.size(), 2u);
  EXPECT_EQ(engine.statistics().blocks_used, 0);
  EXPECT_FALSE(engine.step());
}

TEST_F(OnGpt2, BiasesAndPenaltiesChangeTheScores) {
  EngineRequest request = request_of({3, 14}, R"({"max_new_tokens": 4})");
  request.logit_bias = {{7, 100}};
  engine.add(request);
  EXPECT_EQ(ended_requests(engine).begin()->second.tokens, (TokenIds{7, 7, 7, 7}));
  // The more often a token was written, the less likely it becomes: two that are far before all others take turns.
  request.config.max_new_tokens = 60;
  request.logit_bias = {{7, 1000}, {8, 1000}};
  request.frequency_penalty = 2;
  engine.add(request);
  const TokenIds both = ended_requests(engine).begin()->second.tokens;
  const auto sevens = std::count(both.begin(), both.end(), 7);
  EXPECT_EQ(sevens + std::count(both.begin(), both.end(), 8), 60);
  EXPECT_GT(sevens, 10);
  EXPECT_LT(sevens, 50);
  request.frequency_penalty = -2;
  engine.add(request);
  EXPECT_EQ(ended_requests(engine).begin()->second.tokens.size(), 60u);
}

// Only even tokens, and the end behind three of them.
class EvenTokens : public TokenConstraint {
 public:
  void allowed(std::span<uint32_t> mask) override {
    for (uint32_t& word : mask) word = count_ < 3 ? 0x55555554 : 1;
  }
  void accept(int64_t token) override {
    EXPECT_EQ(token % 2, 0);
    ++count_;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<EvenTokens>(*this); }

 private:
  int count_ = 0;
};

TEST_F(OnGpt2, AConstraintSaysWhatMayFollow) {
  EngineRequest request =
      request_of({3, 14}, R"({"max_new_tokens": 9, "eos_token_id": 0, "do_sample": true, "num_return_sequences": 2})");
  request.constraint = std::make_shared<EvenTokens>();
  engine.add(request);
  for (const auto& [key, result] : ended_requests(engine)) {
    EXPECT_EQ(result.tokens.size(), 3u);
    EXPECT_EQ(result.last.finish, FinishReason::kStop);
  }
}

class NoTokens : public TokenConstraint {
 public:
  void allowed(std::span<uint32_t> mask) override { std::fill(mask.begin(), mask.end(), 0); }
  void accept(int64_t) override {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<NoTokens>(); }
};

TEST_F(OnGpt2, ARowThatFailsFailsAlone) {
  EngineRequest request = request_of({3, 14}, R"({"max_new_tokens": 5})");
  const uint64_t good = engine.add(request);
  request.constraint = std::make_shared<NoTokens>();
  const uint64_t bad = engine.add(request);
  const Results results = ended_requests(engine);
  EXPECT_EQ(results.at({bad, 0}).last.finish, FinishReason::kError);
  EXPECT_NE(results.at({bad, 0}).last.error.find("constraint"), std::string::npos);
  EXPECT_EQ(results.at({good, 0}).tokens.size(), 5u);
}

TEST_F(OnGpt2, DraftsChangeNothingButTheNumberOfSteps) {
  // The same few tokens again and again.
  EngineRequest request = request_of({3, 4, 5, 3, 4, 5, 3, 4}, R"({"max_new_tokens": 30})");
  request.logit_bias = {{3, 20}, {4, 20}, {5, 20}};
  request.logprobs = 0;
  engine.add(request);
  const Result plain = ended_requests(engine).begin()->second;
  const int64_t steps = engine.statistics().steps;
  request.prompt_lookup_num_tokens = 4;
  engine.add(request);
  const Result drafted = ended_requests(engine).begin()->second;
  EXPECT_EQ(drafted.tokens, plain.tokens);
  for (size_t i = 0; i < plain.logprobs.size(); ++i)
    EXPECT_EQ(drafted.logprobs.at(i).logprob, plain.logprobs[i].logprob);
  EXPECT_GT(engine.statistics().accepted_tokens, 0);
  EXPECT_LE(engine.statistics().accepted_tokens, engine.statistics().draft_tokens);
  EXPECT_LT(engine.statistics().steps - steps, steps);
}

TEST_F(OnGpt2, PromptsOfOneBeginningShareIt) {
  TokenIds prompt;
  for (int64_t i = 0; i < 50; ++i) prompt.push_back(i * i % 29);
  engine.add(request_of(prompt, R"({"max_new_tokens": 3})"));
  const Result first = ended_requests(engine).begin()->second;
  EXPECT_EQ(first.last.cached_tokens, 0);
  engine.add(request_of(prompt, R"({"max_new_tokens": 1})"));
  const Result second = ended_requests(engine).begin()->second;
  EXPECT_EQ(second.last.cached_tokens, 48);
  EXPECT_EQ(second.tokens[0], first.tokens[0]);
  EXPECT_EQ(engine.statistics().prefix_hits, 48);
  EXPECT_EQ(engine.statistics().prompt_tokens, 52);
}

// While there is no room for a text, it asks at every step.
TEST_F(OnGpt2, WaitingForRoomIsNoQueryOfThePrefixCache) {
  constexpr int64_t kBytesOfToken = 256;
  Engine small(*model, {.block_size = 4, .cache_bytes = 9 * 4 * kBytesOfToken, .max_model_length = 28});
  for (int64_t first = 0; first < 3; ++first) {
    TokenIds prompt;
    for (int64_t i = 0; i < 20; ++i) prompt.push_back((first + i * i) % 29);
    small.add(request_of(prompt, R"({"max_new_tokens": 6, "min_new_tokens": 6})"));
  }
  EXPECT_EQ(ended_requests(small).size(), 3u);
  EXPECT_EQ(small.statistics().preemptions, 0);
  EXPECT_EQ(small.statistics().prefix_queries, 60);
}

TEST(Engine, RequestsChooseTheirAdapters) {
  const test::TemporaryFolder base, one, two;
  Model::from_config(kDecoder)->save_pretrained(base.string());
  test::save_gpt2_adapter(one.path(), base.string(), 0.5F, 2);
  test::save_gpt2_adapter(two.path(), base.string(), 0.7F, 2);
  const auto model = Model::from_pretrained(base.string());
  Engine engine(*model, {.adapters = {{"one", one.string()}, {"two", two.string()}}});
  EngineRequest request =
      request_of({3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}, R"({"max_new_tokens": 12})");
  std::map<std::string, uint64_t> ids;
  for (const char* adapter : {"one", "", "two"}) {
    request.adapter = adapter;
    ids[adapter] = engine.add(request);
  }
  Results results = ended_requests(engine);
  EXPECT_EQ(results.at({ids[""], 0}).tokens, generated_alone(*model, request));
  for (const auto& [name, folder] : {std::pair("one", &one), std::pair("two", &two)}) {
    const auto adapted = Model::from_pretrained(folder->string(), {.keep_adapters = true});
    EXPECT_EQ(results.at({ids[name], 0}).tokens, generated_alone(*adapted, request)) << name;
    EXPECT_NE(results.at({ids[name], 0}).tokens, results.at({ids[""], 0}).tokens) << name;
    // Neither the cache nor what was compiled for another adapter serves it.
    request.adapter = name;
    const uint64_t again = engine.add(request);
    EXPECT_EQ(ended_requests(engine).at({again, 0}).tokens, results.at({ids[name], 0}).tokens);
  }
  request.adapter = "three";
  EXPECT_THROW(engine.add(request), Error);
  EXPECT_THROW(Engine(*model, {.adapters = {{"x", base.string()}}}), Error);
}

TEST(Engine, AdaptersComeAndGoWhileRequestsRun) {
  const test::TemporaryFolder base, one, two;
  Model::from_config(kDecoder)->save_pretrained(base.string());
  test::save_gpt2_adapter(one.path(), base.string(), 0.5F, 2);
  test::save_gpt2_adapter(two.path(), base.string(), 0.7F, 2);
  const auto model = Model::from_pretrained(base.string());
  EngineRequest request = request_of({3, 14, 15, 9, 2, 6, 5}, R"({"max_new_tokens": 12})");
  const auto expected = [&](const test::TemporaryFolder& folder) {
    return generated_alone(*Model::from_pretrained(folder.string(), {.keep_adapters = true}), request);
  };
  Engine engine(*model);
  request.adapter = "x";
  EXPECT_THROW(engine.add(request), Error);
  engine.load_adapter("x", one.string());
  EXPECT_THROW(engine.load_adapter("x", two.string()), Error);
  EXPECT_THROW(engine.load_adapter("y", base.string()), Error);
  // A request keeps the adapter that it began with, though another one has its name now.
  const uint64_t first = engine.add(request);
  engine.step();
  engine.load_adapter("x", two.string(), true);
  const uint64_t second = engine.add(request);
  engine.step();
  engine.unload_adapter("x");
  EXPECT_THROW(engine.unload_adapter("x"), Error);
  EXPECT_THROW(engine.add(request), Error);
  Results results = ended_requests(engine);
  EXPECT_EQ(results.at({first, 0}).tokens, expected(one));
  EXPECT_EQ(results.at({second, 0}).tokens, expected(two));
  engine.step();  // what was made for them goes
  engine.load_adapter("x", one.string());
  const uint64_t third = engine.add(request);
  EXPECT_EQ(ended_requests(engine).at({third, 0}).tokens, expected(one));
}

TEST_F(OnGpt2, RefusesWhatCanNeverRun) {
  const auto refused = [&](EngineRequest request) { return test::message_of([&] { engine.add(request); }); };
  EXPECT_EQ(engine.max_model_length(), 100);
  EXPECT_NE(refused(request_of({}, "{}")).find("prompt: expected at least one token"), std::string::npos);
  EXPECT_NE(refused(request_of({30}, "{}")).find("the token 30"), std::string::npos);
  EXPECT_NE(refused(request_of(TokenIds(100, 1), "{}")).find("at most 100"), std::string::npos);
  EXPECT_NE(refused(request_of({1}, R"({"max_new_tokens": 100})")).find("at most 100"), std::string::npos);
  EXPECT_NE(refused(request_of({1}, R"({"num_beams": 1000})")).find("num_beams"), std::string::npos);
  EngineRequest request = request_of({1}, "{}");
  request.adapter = "x";
  EXPECT_NE(refused(request).find("adapter"), std::string::npos);
  request = request_of({1}, "{}");
  request.logit_bias = {{30, 1}};
  EXPECT_NE(refused(request).find("logit_bias"), std::string::npos);
  EXPECT_EQ(engine.statistics().waiting, 0);
}

TEST_F(OnGpt2, ACacheOf16BitsHoldsTwiceAsMuch) {
  const int64_t bytes = int64_t{1} << 20;
  Engine wide(*model, {.cache_bytes = bytes}), half(*model, {.cache_bytes = bytes, .cache_dtype = "float16"});
  Engine same(*model, {.cache_bytes = bytes, .cache_dtype = "float32"});
  std::vector<TokenIds> texts;
  std::vector<std::vector<float>> scores;
  for (Engine* engine : {&wide, &half, &same}) {
    EngineRequest request{.prompt = {3, 1, 4, 1, 5}, .logprobs = 0};
    request.config.max_new_tokens = 6, request.config.eos_token_id = {};
    engine->add(request);
    texts.emplace_back(), scores.emplace_back();
    while (engine->step())
      for (const EngineEvent& event : engine->take())
        for (size_t i = 0; i < event.tokens.size(); ++i) {
          texts.back().push_back(event.tokens[i]);
          scores.back().push_back(event.logprobs[i].logprob);
        }
  }
  EXPECT_EQ(half.statistics().blocks, 2 * wide.statistics().blocks);
  ASSERT_EQ(scores[0].size(), 6u);
  EXPECT_EQ(scores[2], scores[0]);
  EXPECT_NE(scores[1], scores[0]) << "keys and values lose digits";
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(scores[1][i], scores[0][i], 2e-2);
  try {
    Engine(*model, {.cache_dtype = "int3"});
    ADD_FAILURE() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "dtype: expected auto, float32, bfloat16 or float16, found 'int3'");
  }
}

TEST_F(OnGpt2, TheQueueIsBounded) {
  Engine small(*model, {.max_sequences = 1, .max_waiting = 2});
  small.add(request_of({1}, R"({"max_new_tokens": 2})"));
  small.step();
  EXPECT_EQ(small.statistics().running, 1);
  small.add(request_of({1}, R"({"max_new_tokens": 2})"));
  small.add(request_of({1}, R"({"max_new_tokens": 2})"));
  EXPECT_EQ(small.statistics().waiting, 2);
  try {
    small.add(request_of({1}, "{}"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
  }
  EXPECT_EQ(ended_requests(small).size(), 3u);
}

TEST_F(OnGpt2, SmallerPriorityGoesFirst) {
  Engine small(*model, {.max_sequences = 1});
  EngineRequest request = request_of({1}, R"({"max_new_tokens": 2})");
  const uint64_t first = small.add(request);
  request.priority = -1;
  const uint64_t urgent = small.add(request);
  std::vector<uint64_t> order;
  while (small.step())
    for (const EngineEvent& event : small.take())
      if (event.finish) order.push_back(event.request);
  EXPECT_EQ(order, (std::vector<uint64_t>{urgent, first}));
}

TEST_F(OnGpt2, RequestsComeFromManyThreads) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) {
        const uint64_t id = engine.add(request_of({1 + i, 2 + k}, R"({"max_new_tokens": 3})"));
        if (k == 4) engine.cancel(id);
      }
    });
  Results results;
  while (results.size() < 20) {
    engine.step();
    collect(engine, results);
    if (results.size() < 20) std::this_thread::yield();
  }
  for (std::thread& client : clients) client.join();
  while (engine.step()) collect(engine, results);
  collect(engine, results);
  for (const auto& [key, result] : results) EXPECT_TRUE(result.last.finish);
}

TEST(Engine, RefusesAModelThatWritesNothing) {
  const auto model = Model::from_config(R"({"model_type": "gpt2", "architectures": ["GPT2Model"], "vocab_size": 30,
    "n_positions": 100, "n_embd": 16, "n_layer": 1, "n_head": 2})");
  EXPECT_THROW(Engine{*model}, Error);
}

}  // namespace
}  // namespace transom
