// SPDX-License-Identifier: Apache-2.0
// Log probabilities of prompts without anything written, and of beams.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/message.h"
#include "transom/engine.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kPaged = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 48, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 30, "initializer_range": 0.5})";
constexpr const char* kRowByRow = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 40,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6, "seq_length": 48})";

struct Scored {
  TokenIds tokens;
  std::vector<TokenLogprobs> logprobs, prompt;
  FinishReason finish = FinishReason::kError;
  double score = 0;
};
using AllScored = std::map<std::pair<uint64_t, int64_t>, Scored>;

AllScored ended_scored(Engine& engine) {
  AllScored all;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      Scored& one = all[{event.request, event.index}];
      EXPECT_EQ(event.error, "");
      one.tokens.insert(one.tokens.end(), event.tokens.begin(), event.tokens.end());
      one.logprobs.insert(one.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      one.prompt.insert(one.prompt.end(), event.prompt.begin(), event.prompt.end());
      if (event.finish) one.finish = *event.finish;
      one.score = event.score.value_or(0);
    }
  };
  while (engine.step()) collect();
  collect();
  return all;
}

bool same(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TokenLogprobs& x, const TokenLogprobs& y) {
    return x.token == y.token && x.logprob == y.logprob && x.top == y.top;
  });
}

TokenIds prompt_of(int64_t length, int64_t seed = 4) {
  TokenIds prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back((13 * i + seed) % 40);
  return prompt;
}

EngineRequest asking(TokenIds prompt, const std::string& options) {
  EngineRequest request{.prompt = std::move(prompt)};
  request.prompt_logprobs = 2;
  request.config.update(options);
  return request;
}

class PromptLogprobs : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Model> model = Model::from_config(GetParam(), {.seed = 3});
};

TEST_P(PromptLogprobs, ComeWithoutAnythingWritten) {
  Engine engine(*model, {.max_model_length = 48});
  const uint64_t writing = engine.add(asking(prompt_of(20), R"({"max_new_tokens": 1})"));
  const AllScored expected = ended_scored(engine);
  const int64_t written = engine.statistics().generated_tokens;
  for (const auto& [block_size, batched] : std::vector<std::pair<int64_t, int64_t>>{{16, 512}, {4, 3}}) {
    Engine reader(*model, {.block_size = block_size, .max_batched_tokens = batched, .max_model_length = 48});
    const uint64_t reading = reader.add(asking(prompt_of(20), R"({"max_new_tokens": 0, "num_return_sequences": 2})"));
    const uint64_t one = reader.add(asking({7}, R"({"max_new_tokens": 0})"));
    const uint64_t full = reader.add(asking(prompt_of(48), R"({"max_new_tokens": 0})"));
    const uint64_t other = reader.add(asking({3, 4}, R"({"max_new_tokens": 5})"));
    const AllScored all = ended_scored(reader);
    for (int64_t i = 0; i < 2; ++i) {
      const Scored& read = all.at({reading, i});
      EXPECT_TRUE(same(read.prompt, expected.at({writing, 0}).prompt)) << block_size;
      EXPECT_EQ(read.prompt.size(), 19u);
      EXPECT_TRUE(read.tokens.empty());
      EXPECT_EQ(read.finish, FinishReason::kLength);
    }
    EXPECT_TRUE(all.at({one, 0}).prompt.empty());
    EXPECT_EQ(all.at({one, 0}).finish, FinishReason::kLength);
    ASSERT_EQ(all.at({full, 0}).prompt.size(), 47u);
    EXPECT_TRUE(same({all.at({full, 0}).prompt.begin(), all.at({full, 0}).prompt.begin() + 19},
                     expected.at({writing, 0}).prompt));
    EXPECT_EQ(all.at({other, 0}).tokens.size(), 5u);
    EXPECT_EQ(reader.statistics().generated_tokens, 5);
    EXPECT_EQ(reader.statistics().blocks_used, 0);
  }
  EXPECT_EQ(written, 1);
  const auto refused = [&](EngineRequest request) { return test::message_of([&] { engine.add(std::move(request)); }); };
  EXPECT_NE(refused(asking(prompt_of(49), R"({"max_new_tokens": 0})")).find("at most 48"), std::string::npos);
  EXPECT_NE(refused(asking(prompt_of(5), R"({"max_new_tokens": 0, "num_beams": 2})")).find("max_new_tokens"),
            std::string::npos);
  EngineRequest nothing = asking(prompt_of(5), R"({"max_new_tokens": 0})");
  nothing.prompt_logprobs.reset();
  EXPECT_NE(refused(std::move(nothing)).find("prompt_logprobs"), std::string::npos);
}

TEST_P(PromptLogprobs, BeamsAddUpWhatTheyTell) {
  Engine plain(*model), engine(*model), small(*model, {.block_size = 4, .max_batched_tokens = 7, .max_sequences = 6});
  const char* const options = R"({"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": 14,
                                  "length_penalty": 0.5, "repetition_penalty": 1.3})";
  EngineRequest request = asking(prompt_of(9), options), without = request;
  request.logprobs = 3;
  without.prompt_logprobs.reset();
  const uint64_t id = engine.add(request), same_id = small.add(request), plain_id = plain.add(without);
  const uint64_t greedy = engine.add(asking(prompt_of(9), R"({"max_new_tokens": 1})"));
  for (int64_t i = 0; i < 3; ++i) small.add(asking({3, 4 + i}, R"({"max_new_tokens": 20})"));
  const AllScored all = ended_scored(engine), company = ended_scored(small), expected = ended_scored(plain);
  for (int64_t i = 0; i < 3; ++i) {
    const Scored& text = all.at({id, i});
    EXPECT_EQ(text.tokens, expected.at({plain_id, i}).tokens);
    // Without pages the prompt is read token by token where its log probabilities are wanted, in other products.
    EXPECT_NEAR(text.score, expected.at({plain_id, i}).score, std::string_view(GetParam()) == kPaged ? 0 : 1e-5);
    ASSERT_EQ(text.logprobs.size(), 14u);
    double sum = 0;
    for (size_t t = 0; t < 14; ++t) {
      EXPECT_EQ(text.logprobs[t].token, text.tokens[t]);
      ASSERT_EQ(text.logprobs[t].top.size(), 3u);
      EXPECT_GE(text.logprobs[t].top[0].second, text.logprobs[t].top[1].second);
      sum += text.logprobs[t].logprob;
    }
    EXPECT_NEAR(sum / std::sqrt(14.0), text.score, 1e-4);
    EXPECT_TRUE(same(text.prompt, all.at({greedy, 0}).prompt));
    EXPECT_TRUE(same(text.logprobs, company.at({same_id, i}).logprobs));
    EXPECT_TRUE(same(text.prompt, company.at({same_id, i}).prompt));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PromptLogprobs, testing::Values(kPaged, kRowByRow),
                         [](const auto& info) { return std::string(info.index == 0 ? "paged" : "row_by_row"); });

}  // namespace
}  // namespace transom
