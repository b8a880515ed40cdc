// SPDX-License-Identifier: Apache-2.0
// Models that keep a state of a text, in the paged engine: blocks hold states as they hold keys.
#include <gtest/gtest.h>

#include <map>

#include "transom/engine.h"
#include "transom/generation.h"

namespace transom {
namespace {

constexpr const char* kStates = R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 61,
  "hidden_size": 20, "num_hidden_layers": 2, "state_size": 4, "num_heads": 5, "head_dim": 8, "n_groups": 1,
  "tie_word_embeddings": true, "initializer_range": 0.4})";

class StatesInBlocks : public testing::Test {
 protected:
  static EngineRequest request_of(size_t tokens, const char* options) {
    EngineRequest request;
    for (size_t i = 0; i < tokens; ++i) request.prompt.tokens.push_back(static_cast<int64_t>((13 * i + 4) % 60));
    request.config.update(options);
    return request;
  }
  std::vector<TokenIds> written(Engine& engine, const std::vector<EngineRequest>& requests) {
    std::map<uint64_t, TokenIds> texts;
    for (const EngineRequest& request : requests) texts[engine.add(request)] = {};
    const auto collect = [&] {
      for (const EngineEvent& event : engine.take()) {
        EXPECT_EQ(event.error, "");
        TokenIds& tokens = texts.at(event.request);
        tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      }
    };
    while (engine.step()) collect();
    collect();
    std::vector<TokenIds> result;
    for (auto& [id, tokens] : texts) result.push_back(std::move(tokens));
    return result;
  }
  TokenIds alone(const EngineRequest& request) const {
    TokenIds tokens = generate(*model, request.prompt, request.config).sequences.at(0);
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(request.prompt.tokens.size()));
    return tokens;
  }
  const std::unique_ptr<Model> model = Model::from_config(kStates);
};

TEST_F(StatesInBlocks, GoOnAsGenerateDoes) {
  std::vector<EngineRequest> requests;
  for (const size_t tokens : {1, 4, 9, 23})
    for (const char* options : {R"({"max_new_tokens": 14})", R"({"max_new_tokens": 11, "num_beams": 3})"})
      requests.push_back(request_of(tokens, options));
  for (const int64_t block_size : {3, 16}) {
    Engine engine(*model, {.block_size = block_size, .max_batched_tokens = 10, .max_model_length = 96});
    const std::vector<TokenIds> texts = written(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(texts[i], alone(requests[i])) << block_size << ' ' << i;
    EXPECT_EQ(engine.statistics().blocks_used, 0);
    EXPECT_GT(engine.statistics().blocks, 0) << "computed row by row";
  }
}

TEST_F(StatesInBlocks, AreFoundAgainWithTheirPrefix) {
  Engine engine(*model, {.block_size = 4, .max_model_length = 96});
  const EngineRequest first = request_of(22, R"({"max_new_tokens": 6})"),
                      longer = request_of(31, R"({"max_new_tokens": 6})");
  EXPECT_EQ(written(engine, {first}).at(0), alone(first));
  EXPECT_EQ(engine.statistics().prefix_hits, 0);
  EXPECT_EQ(written(engine, {longer}).at(0), alone(longer));
  EXPECT_EQ(engine.statistics().prefix_hits, 20);
}

// Of a length without a limit the states of one text fit into the cache all the same.
TEST_F(StatesInBlocks, NeedNoRoomForEachToken) {
  constexpr int64_t kStateBytes = 2432;
  Engine engine(*model, {.cache_bytes = 5 * kStateBytes});
  const EngineRequest request = request_of(200, R"({"max_new_tokens": 9})");
  EXPECT_EQ(written(engine, {request, request}).at(1), alone(request));
  EXPECT_LE(engine.statistics().blocks, 5);
}

}  // namespace
}  // namespace transom
