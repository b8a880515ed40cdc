// SPDX-License-Identifier: Apache-2.0
// Models that keep a state of a text, in the paged engine: blocks hold states as they hold keys.
#include <gtest/gtest.h>

#include <map>

#include "transom/engine.h"
#include "transom/generation.h"

namespace transom {
namespace {

// A state for all of a text, or one in some layers and keys and values in others.
constexpr const char* kStates = R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 61,
  "hidden_size": 20, "num_hidden_layers": 2, "state_size": 4, "num_heads": 5, "head_dim": 8, "n_groups": 1,
  "tie_word_embeddings": true, "initializer_range": 0.4})";

constexpr const char* kConvolutions = R"({"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 96, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 24, "block_auto_adjust_ff_dim": false,
  "layer_types": ["conv", "full_attention", "conv"], "initializer_range": 0.4})";
constexpr const char* kDeltaRule = R"({"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 96, "hidden_size": 20, "intermediate_size": 24, "num_hidden_layers": 2,
  "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
  "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1, "linear_num_value_heads": 2,
  "linear_key_head_dim": 6, "linear_value_head_dim": 5, "initializer_range": 0.4})";

struct StatesCase {
  const char* name;
  const char* config;
};

class StatesInBlocks : public testing::TestWithParam<StatesCase> {
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
  const std::unique_ptr<Model> model = Model::from_config(GetParam().config);
};

TEST_P(StatesInBlocks, GoOnAsGenerateDoes) {
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

TEST_P(StatesInBlocks, AreFoundAgainWithTheirPrefix) {
  Engine engine(*model, {.block_size = 4, .max_model_length = 96});
  const EngineRequest first = request_of(22, R"({"max_new_tokens": 6})"),
                      longer = request_of(31, R"({"max_new_tokens": 6})");
  EXPECT_EQ(written(engine, {first}).at(0), alone(first));
  EXPECT_EQ(engine.statistics().prefix_hits, 0);
  EXPECT_EQ(written(engine, {longer}).at(0), alone(longer));
  EXPECT_EQ(engine.statistics().prefix_hits, 20);
}

INSTANTIATE_TEST_SUITE_P(Models, StatesInBlocks,
                         testing::Values(StatesCase{"Scans", kStates}, StatesCase{"Convolutions", kConvolutions},
                                         StatesCase{"DeltaRule", kDeltaRule}),
                         [](const auto& info) { return std::string(info.param.name); });

class StatesAlone : public StatesInBlocks {};

// Of a length without a limit the states of one text fit into the cache all the same.
TEST_P(StatesAlone, NeedNoRoomForEachToken) {
  constexpr int64_t kStateBytes = 2432;
  Engine engine(*model, {.cache_bytes = 5 * kStateBytes});
  const EngineRequest request = request_of(200, R"({"max_new_tokens": 9})");
  EXPECT_EQ(written(engine, {request, request}).at(1), alone(request));
  EXPECT_LE(engine.statistics().blocks, 5);
}

INSTANTIATE_TEST_SUITE_P(Models, StatesAlone, testing::Values(StatesCase{"Scans", kStates}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
