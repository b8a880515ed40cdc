// SPDX-License-Identifier: Apache-2.0
// Requests of several tenants: whose turn it is, and what each may learn of the others' prompts.
#include <gtest/gtest.h>

#include <map>

#include "transom/config.h"
#include "transom/engine.h"

namespace transom {
namespace {

constexpr const char* kTenantsDecoder =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30,
  "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";

class Tenants : public testing::Test {
 protected:
  static EngineRequest request_of(const std::string& tenant, int64_t length = 1) {
    EngineRequest request;
    request.tenant = tenant;
    for (int64_t i = 0; i < length; ++i) request.prompt.tokens.push_back(i * i % 29);
    request.config.max_new_tokens = 2;
    return request;
  }
  struct Ended {
    TokenIds tokens;
    int64_t cached = 0;
  };
  static std::vector<std::pair<uint64_t, Ended>> ended(Engine& engine) {
    std::vector<std::pair<uint64_t, Ended>> order;
    std::map<uint64_t, Ended> news;
    while (engine.step())
      for (EngineEvent& event : engine.take()) {
        Ended& each = news[event.request];
        each.tokens.insert(each.tokens.end(), event.tokens.begin(), event.tokens.end());
        each.cached += event.cached_tokens;
        if (event.finish) order.emplace_back(event.request, each);
      }
    return order;
  }
  const std::unique_ptr<Model> model = Model::from_config(kTenantsDecoder);
};

TEST_F(Tenants, WaitNoLongerForTheCrowdOfAnother) {
  Engine engine(*model, {.max_sequences = 2});
  std::vector<uint64_t> crowd;
  for (int i = 0; i < 6; ++i) crowd.push_back(engine.add(request_of("many")));
  const uint64_t late = engine.add(request_of("few"));
  const auto order = ended(engine);
  ASSERT_EQ(order.size(), 7u);
  // The oldest of each runs first, then there is a place for the crowd's next.
  EXPECT_TRUE(order[0].first == late || order[1].first == late);
  std::vector<uint64_t> of_crowd;
  for (const auto& [id, each] : order)
    if (id != late) of_crowd.push_back(id);
  EXPECT_EQ(of_crowd, crowd);
}

TEST_F(Tenants, APriorityGoesBeforeTurns) {
  Engine engine(*model, {.max_sequences = 1});
  EngineRequest later = request_of("few");
  later.priority = 1;
  const uint64_t last = engine.add(later);
  for (int i = 0; i < 3; ++i) engine.add(request_of("many"));
  EXPECT_EQ(ended(engine).back().first, last);
}

// Prompts are read by parts of eight tokens: those of the second tenant come before the later ones of the first.
TEST_F(Tenants, PromptsAreReadInTurns) {
  Engine engine(*model, {.max_batched_tokens = 8, .prefix_caching = false});
  std::vector<uint64_t> crowd;
  for (int i = 0; i < 4; ++i) crowd.push_back(engine.add(request_of("many", 40)));
  engine.step();
  const uint64_t late = engine.add(request_of("few", 40));
  const auto order = ended(engine);
  ASSERT_EQ(order.size(), 5u);
  EXPECT_EQ(order[0].first, crowd[0]);
  EXPECT_EQ(order[1].first, late);
}

// Where blocks end, the one with most in work gives up, and all get what they get alone.
TEST_F(Tenants, TextsAreThoseOfEachAlone) {
  const auto text_alone = [&](const EngineRequest& request) {
    Engine alone(*model, {});
    alone.add(request);
    return ended(alone).at(0).second.tokens;
  };
  // Nine blocks of four tokens, which two texts fill: a token is 2 layers x 2 x 16 numbers of f32.
  Engine engine(*model, {.block_size = 4, .cache_bytes = 9 * 4 * 256, .max_batched_tokens = 6, .max_model_length = 28});
  std::map<uint64_t, EngineRequest> asked;
  for (const char* tenant : {"a", "a", "b", "a", "c"}) {
    EngineRequest request = request_of(tenant, 9 + static_cast<int64_t>(asked.size()));
    request.config.max_new_tokens = 12;
    asked[engine.add(request)] = request;
  }
  const auto order = ended(engine);
  ASSERT_EQ(order.size(), asked.size());
  for (const auto& [id, each] : order) EXPECT_EQ(each.tokens, text_alone(asked.at(id))) << id;
  EXPECT_GT(engine.statistics().preemptions, 0);
}

// Who guesses another's prompt learns from neither tokens that are cached nor the time.
TEST_F(Tenants, FindNothingOfEachOthersPrompts) {
  Engine engine(*model, {});
  const auto cached = [&](const std::string& tenant, const std::string& salt) {
    EngineRequest request = request_of(tenant, 50);
    request.cache_salt = salt;
    engine.add(request);
    return ended(engine).at(0).second.cached;
  };
  EXPECT_EQ(cached("a", ""), 0);
  EXPECT_EQ(cached("a", ""), 48);
  EXPECT_EQ(cached("b", ""), 0);
  EXPECT_EQ(cached("", ""), 0);
  EXPECT_EQ(cached("b", ""), 48);
  EXPECT_EQ(cached("b", "salt"), 0);
  EXPECT_EQ(cached("b", "salt"), 48);
  EXPECT_EQ(cached("bs", "alt"), 0);  // where one ends and the other begins counts
  EXPECT_EQ(cached("", "bsalt"), 0);
}

TEST_F(Tenants, TheTimeInTheQueueIsTold) {
  Engine engine(*model, {.max_sequences = 1});
  const uint64_t first = engine.add(request_of("a")), second = engine.add(request_of("a"));
  std::map<uint64_t, double> seconds;
  std::map<uint64_t, int> told;
  while (engine.step())
    for (const EngineEvent& event : engine.take())
      if (event.queue_seconds) seconds[event.request] = *event.queue_seconds, ++told[event.request];
  EXPECT_EQ(told[first], 1);
  EXPECT_EQ(told[second], 1);
  EXPECT_GE(seconds[first], 0);
  EXPECT_GT(seconds[second], seconds[first]);  // it began when the first had ended
}

}  // namespace
}  // namespace transom
