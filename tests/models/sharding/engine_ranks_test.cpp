// SPDX-License-Identifier: Apache-2.0
// The engine of a model that is spread over processes, with inputs among the tokens: this program runs itself as the
// ranks.
#include <gtest/gtest.h>

#include <cstdlib>

#include "models/sharding/inference.h"
#include "runtime/tensor/evaluator.h"
#include "support/own_ranks.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "transom/engine.h"
#include "transom/ops.h"
#include "work/generation/processes/follow.h"

namespace transom {
namespace {

constexpr const char* kSpread = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 53,
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 48, "max_position_embeddings": 96, "initializer_range": 0.4})";

struct Spread {
  std::vector<TokenIds> tokens;
  std::vector<float> logprobs;
  int64_t cached = 0;
};

// Some tokens alone, then twice the same input, then others in its places. In 16 bits, so that its rows are computed.
Spread answers_of(const Model& model) {
  TokenIds prompt;
  for (int64_t i = 0; i < 40; ++i) prompt.push_back((5 + i * 11) % 53);
  std::vector<float> rows;
  for (int64_t i = 0; i < 9 * 32; ++i) rows.push_back(0.5f * static_cast<float>(i * 37 % 11) - 2.5f);
  const Tensor one = cast(Tensor::from(rows, {9, 32}), DType::kFloat16), two = cast(-one, DType::kFloat16);
  const auto with = [&](const Tensor& tensor) {
    return ModelInputs(prompt, {{.tensors = {{"inputs_embeds", tensor}}, .places = {{4, 6}, {20, 3}}}});
  };
  // The cache grows, and prompts are read by parts.
  Engine engine(model, {.block_size = 4, .max_batched_tokens = 16});
  Spread answers;
  for (const ModelInputs& inputs : {ModelInputs(prompt), with(one), with(one), with(two)}) {
    EngineRequest request{.prompt = inputs};
    request.config.max_new_tokens = 8;
    request.logprobs = 0;
    engine.add(request);
    answers.tokens.emplace_back();
    while (engine.step())
      for (const EngineEvent& event : engine.take()) {
        EXPECT_EQ(event.error, "");
        answers.cached += event.cached_tokens;
        answers.tokens.back().insert(answers.tokens.back().end(), event.tokens.begin(), event.tokens.end());
        for (const TokenLogprobs& at : event.logprobs) answers.logprobs.push_back(at.logprob);
      }
  }
  return answers;
}

TEST(EngineRanks, DISABLED_WriteWhatOneProcessWrites) {
  const char* axis = std::getenv("TEST_AXIS");
  if (!axis) GTEST_SKIP() << "not one of several";
  set_device("cpu");
  join_process_group({.backend = std::getenv("TEST_BACKEND"), .timeout = 60});
  const Spread alone = answers_of(*Model::from_config(kSpread, {.seed = 3}));
  const auto model = Model::from_config(kSpread, {.seed = 3});
  ShardingLayout layout;
  layout.set(axis == std::string_view("tp") ? MeshAxis::kTensor : MeshAxis::kPipeline, process_count());
  ShardedInference inference(*model, layout, process_rank(), process_count());
  if (process_rank() > 0) {
    follow_engine(*model, inference);
  } else {
    const EvaluatorScope scope(&inference);
    const Spread together = answers_of(*model);
    EXPECT_EQ(together.tokens, alone.tokens);
    EXPECT_EQ(together.cached, alone.cached);
    ASSERT_EQ(together.logprobs.size(), alone.logprobs.size());
    for (size_t i = 0; i < alone.logprobs.size(); ++i) EXPECT_NEAR(together.logprobs[i], alone.logprobs[i], 1e-4) << i;
  }
  EXPECT_EQ(alone.cached, 36 + 4 + 4);
  EXPECT_EQ(alone.tokens[1], alone.tokens[2]);
  EXPECT_NE(alone.tokens[1], alone.tokens[3]);
  leave_process_group();
}

// ---- the test's side

class EngineOverProcesses : public testing::TestWithParam<const char*> {};

TEST_P(EngineOverProcesses, WritesWhatOneProcessWrites) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  EXPECT_EQ(
      test::run_over_gloo("EngineRanks.DISABLED_WriteWhatOneProcessWrites", 2, std::string("TEST_AXIS=") + GetParam()),
      "");
}

INSTANTIATE_TEST_SUITE_P(Axes, EngineOverProcesses, testing::Values("tp", "pp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace transom
