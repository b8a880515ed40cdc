// SPDX-License-Identifier: Apache-2.0
// Drafts that the engine makes by itself: what is written has the bits that it has without.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "support/message.h"
#include "transom/engine.h"
#include "transom/error.h"
#include "work/generation/engine/drafts/drafted_texts.h"

namespace transom {
namespace {

using Method = DraftOptions::Method;

constexpr int64_t kLongest = 160;
constexpr const char* kModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 160, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 30, "initializer_range": 0.5})";
constexpr const char* kStates = R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 40,
  "hidden_size": 20, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 3, "initializer_range": 0.4})";
constexpr const char* kBloom = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 40,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})";

// Some come twice, some go round in circles.
std::vector<EngineRequest> circling_requests() {
  std::vector<EngineRequest> list;
  const auto add = [&](TokenIds prompt, const char* options) -> EngineRequest& {
    list.push_back({.prompt = std::move(prompt)});
    list.back().config.update(options);
    return list.back();
  };
  TokenIds longer(37);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<int64_t>(7 * i % 12);
  for (int turn = 0; turn < 2; ++turn) {
    add({3, 14, 15, 9}, R"({"max_new_tokens": 60})").logit_bias = {{3, 20}, {4, 20}, {5, 20}};
    add({4, 39, 2}, R"({"max_new_tokens": 30})").logprobs = 0;
    add(longer, R"({"max_new_tokens": 25, "eos_token_id": [5, 6, 7]})");
    add({11, 3}, R"({"max_new_tokens": 40, "do_sample": true, "seed": 7, "top_k": 10})").logprobs = 2;
    add({1, 2}, R"({"max_new_tokens": 20, "do_sample": true, "seed": 9, "num_return_sequences": 3})");
    add({5, 6, 7, 5, 6}, R"({"max_new_tokens": 30, "repetition_penalty": 1.3})").prompt_lookup_num_tokens = 4;
    add({8, 9}, R"({"max_new_tokens": 12, "num_beams": 3})");
  }
  return list;
}

class Drafts : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Drafts, ChangeNothingThatIsWritten) {
  const auto model = Model::from_config(GetParam().second, {.seed = 3});
  Engine alone(*model, {.max_sequences = 6, .max_model_length = kLongest});
  const test::DraftedTexts expected = test::texts_of(alone, circling_requests());
  for (const Method method : {Method::kLookup, Method::kSuffix})
    for (const bool measured : {false, true})
      for (const auto& [block_size, cache_bytes, batched] :
           std::vector<std::tuple<int64_t, int64_t, int64_t>>{{16, 0, 512}, {4, 0, 9}, {4, 60 * 768, 64}}) {
        Engine engine(*model, {.block_size = block_size,
                               .cache_bytes = cache_bytes,
                               .max_batched_tokens = batched,
                               .max_sequences = 6,
                               .max_model_length = kLongest,
                               .drafts = {.method = method, .tokens = 6, .suffix_factor = 2, .measured = measured}});
        EXPECT_EQ(test::texts_of(engine, circling_requests()), expected)
            << static_cast<int>(method) << measured << ' ' << block_size;
        const EngineStatistics s = engine.statistics();
        EXPECT_GT(s.draft_tokens, 0);
        EXPECT_LE(s.accepted_tokens, s.draft_tokens);
        int64_t accepted = 0;
        for (const int64_t at : s.accepted_at) accepted += at;
        EXPECT_EQ(accepted, s.accepted_tokens);
        if (!measured && batched == 512) {
          EXPECT_GT(s.accepted_tokens, 20);
          if (GetParam().second == kModel) {
            EXPECT_LT(s.steps, alone.statistics().steps);
          }
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Models, Drafts, testing::Values(std::pair("Keys", kModel), std::pair("States", kStates)),
                         [](const auto& info) { return std::string(info.param.first); });

// An answer that comes again is drafted from the first one.
TEST(DraftsOfAnswers, ComeFromEarlierOnes) {
  const auto model = Model::from_config(kModel, {.seed = 3});
  Engine engine(*model, {.drafts = {.method = Method::kSuffix, .tokens = 8, .suffix_factor = 4}});
  std::vector<int64_t> steps, accepted;
  for (int turn = 0; turn < 2; ++turn) {
    EngineRequest request{.prompt = {3, 14, 15}};
    request.config.max_new_tokens = 60;
    request.config.do_sample = true, request.config.seed = 5;  // no circles
    engine.add(request);
    while (engine.step()) continue;
    steps.push_back(engine.statistics().steps), accepted.push_back(engine.statistics().accepted_tokens);
  }
  EXPECT_GT(accepted[1] - accepted[0], 30);
  EXPECT_LT(steps[1] - steps[0], 30);
}

// Two who ask while a third steps.
TEST(DraftsOfAnswers, AreOneForTwoAskers) {
  const auto model = Model::from_config(kModel, {.seed = 3});
  Engine engine(*model, {.drafts = {.method = Method::kSuffix, .tokens = 6, .measured = true}});
  const auto ask = [&](const char* tenant) {
    for (int i = 0; i < 8; ++i) {
      EngineRequest request{.prompt = {3, 14, 15, 9, 2}};
      request.tenant = tenant;
      request.config.max_new_tokens = 12;
      engine.add(std::move(request));
      engine.statistics();
    }
  };
  std::thread one(ask, "a"), two(ask, "b");
  std::map<uint64_t, TokenIds> texts;
  size_t ended = 0;
  while (ended < 16) {
    engine.step();
    for (const EngineEvent& event : engine.take()) {
      texts[event.request].insert(texts[event.request].end(), event.tokens.begin(), event.tokens.end());
      ended += event.finish.has_value();
    }
  }
  one.join(), two.join();
  for (const auto& [number, tokens] : texts) EXPECT_EQ(tokens, texts.begin()->second) << number;
}

TEST(DraftsOfAnswers, AreRefusedWhereTheyHaveNoMeaning) {
  const auto model = Model::from_config(kModel), bloom = Model::from_config(kBloom);
  const auto refused = [&](const Model& given, EngineOptions options) {
    return test::message_of([&] { Engine(given, std::move(options)); });
  };
  EXPECT_NE(refused(*bloom, {.drafts = {.method = Method::kSuffix}}).find("row by row"), std::string::npos);
  EXPECT_NE(refused(*model, {.assistant = model.get(), .drafts = {.method = Method::kLookup}}).find("either"),
            std::string::npos);
  EXPECT_NE(refused(*model, {.drafts = {.method = Method::kSuffix, .tokens = 0}}).find("tokens"), std::string::npos);
  EXPECT_NE(refused(*model, {.drafts = {.method = Method::kSuffix, .suffix_least = 2}}).find("suffix_least"),
            std::string::npos);
  EXPECT_NE(refused(*model, {.drafts = {.method = Method::kHead}}).find("head"), std::string::npos);
}

}  // namespace
}  // namespace transom
