// SPDX-License-Identifier: Apache-2.0
#include "work/generation/generate_each.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kEachModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 31,
  "max_position_embeddings": 48, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
  "intermediate_size": 20, "initializer_range": 0.6})";
constexpr const char* kEachAssistant =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 31,
  "n_positions": 48, "n_embd": 8, "n_layer": 1, "n_head": 1, "initializer_range": 0.6})";

class Tokens : public Streamer {
 public:
  void put(const TokenIds& ids) override { all.insert(all.end(), ids.begin(), ids.end()); }
  void end() override { ended = true; }
  TokenIds all;
  bool ended = false;
};

class GenerateEach : public testing::Test {
 protected:
  void SetUp() override { set_device("cpu"); }
  // Tokens, then embeddings in place of some of them, then of all.
  static std::vector<ModelInputs> prompts() {
    const auto rows = [](int64_t count) {
      std::vector<float> values;
      for (int64_t i = 0; i < count * 16; ++i) values.push_back(0.3f * static_cast<float>(i * 7 % 13) - 1.8f);
      return NamedTensors{{"inputs_embeds", Tensor::from(values, {count, 16})}};
    };
    return {{3, 14, 15, 9},
            {{3, 14, 15, 9, 4, 4}, {{.tensors = rows(3), .places = {{2, 3}}}}},
            {{1, 1}, {{.tensors = rows(2), .places = {{0, 2}}}}}};
  }
  static GenerationConfig config(const char* options = R"({"max_new_tokens": 9})") {
    GenerationConfig made;
    made.update(options);
    return made;
  }
  const std::unique_ptr<Model> model = Model::from_config(kEachModel, {.seed = 2});
  const Tokenizer tokenizer =
      Tokenizer::from_json(R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})");
};

TEST_F(GenerateEach, WritesTheSameTogetherAndAlone) {
  for (const char* options : {R"({"max_new_tokens": 9})", R"({"max_new_tokens": 9, "do_sample": true, "seed": 4})",
                              R"({"max_new_tokens": 9, "repetition_penalty": 1.4})"}) {
    const std::vector<TokenIds> alone =
        generate_each(*model, prompts(), config(options), {.tokenizer = &tokenizer, .together = 1});
    EngineStatistics statistics;
    const std::vector<TokenIds> together = generate_each(
        *model, prompts(), config(options), {.tokenizer = &tokenizer, .together = 2, .statistics = &statistics});
    EXPECT_EQ(together, alone) << options;
    EXPECT_EQ(statistics.generated_tokens, 27) << options;
    const std::vector<ModelInputs> given = prompts();
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(alone[i].size(), given[i].tokens.size() + 9);
      EXPECT_TRUE(std::equal(given[i].tokens.begin(), given[i].tokens.end(), alone[i].begin()));
    }
    const NamedTensors embeddings{{"inputs_embeds", unsqueeze(given[2].attached[0].tensors.at("inputs_embeds"), 0)},
                                  {"input_ids", Tensor::from(given[2].tokens, {1, 2})}};
    EXPECT_EQ(generate(*model, embeddings, config(options)).sequences.at(0), alone[2]) << options;
    EXPECT_EQ(generate(*model, given[2], config(options)).sequences.at(0), alone[2]) << options;
  }
}

TEST_F(GenerateEach, AnAssistantChangesNothing) {
  const auto assistant = Model::from_config(kEachAssistant);
  const std::vector<TokenIds> alone = generate_each(*model, prompts(), config(), {.tokenizer = &tokenizer});
  EngineStatistics statistics;
  EXPECT_EQ(generate_each(*model, prompts(), config(),
                          {.together = 3, .assistant = assistant.get(), .statistics = &statistics}),
            alone);
  EXPECT_GT(statistics.draft_tokens, 0);
}

TEST_F(GenerateEach, StreamsTheTextOfOnePrompt) {
  const auto assistant = Model::from_config(kEachAssistant);
  for (const Model* drafts : {static_cast<const Model*>(nullptr), static_cast<const Model*>(assistant.get())}) {
    Tokens streamed;
    const std::vector<TokenIds> texts =
        generate_each(*model, {prompts()[1]}, config(), {.streamer = &streamed, .assistant = drafts});
    EXPECT_EQ(streamed.all, texts.at(0));
    EXPECT_TRUE(streamed.ended);
  }
  Tokens streamed;
  EXPECT_NE(test::message_of([&] {
              generate_each(*model, prompts(), config(), {.tokenizer = &tokenizer, .streamer = &streamed});
            }).find("takes one prompt, found 3"),
            std::string::npos);
}

TEST_F(GenerateEach, ABadInputFailsBeforeAnythingIsWritten) {
  std::vector<ModelInputs> bad = prompts();
  bad[1].attached[0].places = {{4, 3}};
  for (const int64_t together : {1, 2})
    EXPECT_NE(test::message_of([&] {
                generate_each(*model, bad, config(), {.tokenizer = &tokenizer, .together = together});
              }).find("of a text of 6 tokens"),
              std::string::npos);
}

}  // namespace
}  // namespace transom
