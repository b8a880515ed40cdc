// SPDX-License-Identifier: Apache-2.0
// Drafts of an assistant model: what is written does not change, only the number of steps.
#include <gtest/gtest.h>

#include <map>

#include "support/message.h"
#include "transom/engine.h"
#include "transom/error.h"
#include "work/generation/generate_each.h"

namespace transom {
namespace {

constexpr const char* kModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 96, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 30, "initializer_range": 0.5})";
// Knows fewer tokens, and shorter texts.
constexpr const char* kSmall = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 38,
  "n_positions": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kBloom = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 40,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})";

struct Text {
  TokenIds tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> finish;
  std::optional<int64_t> end;
  bool operator==(const Text&) const = default;
};
using Texts = std::map<std::pair<uint64_t, int64_t>, Text>;

std::vector<EngineRequest> requests() {
  std::vector<EngineRequest> list;
  const auto add = [&](TokenIds prompt, const char* options) -> EngineRequest& {
    list.push_back({.prompt = std::move(prompt)});
    list.back().config.update(options);
    return list.back();
  };
  TokenIds longer(37);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<int64_t>(7 * i % 40);
  add({3, 14, 15, 9}, R"({"max_new_tokens": 60})");
  add({4, 39, 2}, R"({"max_new_tokens": 30})").logprobs = 0;
  add(longer, R"({"max_new_tokens": 25, "eos_token_id": [5, 6, 7]})");
  add({11, 3}, R"({"max_new_tokens": 40, "do_sample": true, "seed": 7, "top_k": 10})").logprobs = 2;
  add({1, 2}, R"({"max_new_tokens": 20, "do_sample": true, "seed": 9, "num_return_sequences": 3})");
  add({5, 6, 7, 5, 6}, R"({"max_new_tokens": 30, "repetition_penalty": 1.3})").prompt_lookup_num_tokens = 4;
  add({8, 9}, R"({"max_new_tokens": 12, "num_beams": 3})");
  add(longer, R"({"max_new_tokens": 25, "no_repeat_ngram_size": 2, "min_new_tokens": 9, "eos_token_id": 4})");
  return list;
}

Texts finished(Engine& engine) {
  for (EngineRequest& request : requests()) engine.add(std::move(request));
  Texts texts;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      Text& text = texts[{event.request, event.index}];
      text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& each : event.logprobs) text.logprobs.push_back(each.logprob);
      text.finish = event.finish, text.end = event.end_token;
      EXPECT_EQ(event.error, "");
    }
  };
  while (engine.step()) collect();
  collect();
  EXPECT_EQ(engine.statistics().blocks_used, 0);
  return texts;
}

class WithAssistant : public testing::Test {
 protected:
  const std::unique_ptr<Model> model = Model::from_config(kModel, {.seed = 3});
};

TEST_F(WithAssistant, TheTextsAreThoseOfTheModelAlone) {
  Engine alone(*model);
  const Texts expected = finished(alone);
  const auto small = Model::from_config(kSmall), twin = Model::from_config(kModel, {.seed = 3});
  for (const Model* assistant : {small.get(), twin.get()})
    for (const auto& [block_size, cache_bytes, batched, count] :
         std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
             {16, 0, 512, 5}, {4, 0, 7, 3}, {4, 30 * 768, 64, 4}, {3, 0, 512, 20}}) {
      Engine engine(*model, {.block_size = block_size,
                             .cache_bytes = cache_bytes,
                             .max_batched_tokens = batched,
                             .max_sequences = 6,
                             .assistant = assistant,
                             .num_assistant_tokens = count});
      EXPECT_EQ(finished(engine), expected) << block_size << ' ' << cache_bytes << ' ' << batched << ' ' << count;
      const EngineStatistics statistics = engine.statistics();
      EXPECT_GT(statistics.draft_tokens, 0);
      EXPECT_GT(statistics.drafts, 0);
      if (cache_bytes > 0) {
        EXPECT_GT(statistics.preemptions, 0);
      }
      if (assistant == twin.get() && batched == 512) {
        EXPECT_GT(statistics.accepted_tokens, 100);
        EXPECT_LT(statistics.steps, alone.statistics().steps);
      }
    }
}

TEST_F(WithAssistant, AGreedyTwinIsAlwaysRight) {
  const auto twin = Model::from_config(kModel, {.seed = 3});
  Engine engine(*model, {.assistant = twin.get(), .num_assistant_tokens = 4});
  EngineRequest request{.prompt = {3, 14, 15}};
  request.config.max_new_tokens = 41;  // the first comes with the prompt, the others by five
  engine.add(request);
  while (engine.step()) continue;
  EXPECT_EQ(engine.statistics().draft_tokens, 32);
  EXPECT_EQ(engine.statistics().accepted_tokens, 32);
  EXPECT_EQ(engine.statistics().steps, 9);
}

TEST_F(WithAssistant, GeneratesWhatGenerateGives) {
  const auto small = Model::from_config(kSmall);
  int64_t drafts = 0;
  for (const char* options : {R"({"max_new_tokens": 30})", R"({"max_new_tokens": 30, "eos_token_id": [5, 6, 7, 8]})",
                              R"({"max_new_tokens": 30, "do_sample": true, "seed": 4, "top_p": 0.9})"}) {
    GenerationConfig config;
    config.update(options);
    NamedTensors inputs;
    inputs.set("input_ids", Tensor::from(std::vector<int64_t>{3, 1, 4}, {1, 3}));
    EngineStatistics statistics;
    const EachOptions with{.assistant = small.get(), .num_assistant_tokens = 3, .statistics = &statistics};
    EXPECT_EQ(generate_each(*model, {ModelInputs{3, 1, 4}}, config, with).at(0),
              generate(*model, inputs, config).sequences.at(0))
        << options;
    drafts += statistics.drafts;
  }
  EXPECT_GT(drafts, 0);
}

TEST_F(WithAssistant, RefusesWhatDoesNotFit) {
  const auto bloom = Model::from_config(kBloom);
  EXPECT_NE(test::message_of([&] { Engine(*model, {.assistant = bloom.get()}); }).find("assistant"), std::string::npos);
  EXPECT_NE(test::message_of([&] { Engine(*bloom, {.assistant = model.get()}); }).find("row by row"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] {
              Engine(*model, {.assistant = model.get(), .num_assistant_tokens = 0});
            }).find("num_assistant_tokens"),
            std::string::npos);
  GenerationConfig beams;
  beams.num_beams = 2;
  EXPECT_NE(test::message_of([&] {
              generate_each(*model, {ModelInputs{1}}, beams, {.assistant = model.get()});
            }).find("num_beams"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
