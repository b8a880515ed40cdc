// SPDX-License-Identifier: Apache-2.0
// Weights that stay in the type of their file, as a server loads them: the engine's bits are those of converted ones.
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "transom/engine.h"

namespace transom {
namespace {

constexpr const char* kStoredConfig =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 48, "initializer_range": 0.6, "tie_word_embeddings": TIED})";

std::string stored_config(bool tied) {
  std::string text = kStoredConfig;
  return text.replace(text.find("TIED"), 4, tied ? "true" : "false");
}

struct StoredAnswer {
  TokenIds tokens;
  std::vector<float> logprobs;
  bool operator==(const StoredAnswer&) const = default;
};

std::vector<StoredAnswer> stored_answers(const Model& model) {
  Engine engine(model, {});
  for (int64_t i = 0; i < 9; ++i) {
    EngineRequest request;
    request.prompt = TokenIds(static_cast<size_t>(1 + 3 * i), 2 + i);
    request.config.max_new_tokens = 6;
    request.logprobs = 3;
    engine.add(std::move(request));
  }
  std::vector<StoredAnswer> answers(9);
  while (engine.step())
    for (const EngineEvent& event : engine.take()) {
      StoredAnswer& answer = answers.at(event.request - 1);
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& token : event.logprobs) answer.logprobs.push_back(token.logprob);
      EXPECT_EQ(event.error, "");
    }
  return answers;
}

TEST(StoredTypes, GiveTheBitsOfConvertedWeights) {
  for (const char* dtype : {"bfloat16", "float16"})
    for (const bool tied : {false, true}) {
      const test::TemporaryFolder folder;
      LoadOptions short_type;
      short_type.dtype = dtype;
      Model::from_config(stored_config(tied), short_type)->save_pretrained(folder.path().string());
      LoadOptions wide;
      wide.dtype = "float32";
      const auto converted = Model::from_pretrained(folder.path().string(), wide);
      const std::vector<StoredAnswer> expected = stored_answers(*converted);
      ASSERT_EQ(expected[8].tokens.size(), 6u);
      LoadOptions as_stored = wide;
      as_stored.keep_stored_types = true;
      const auto stored = Model::from_pretrained(folder.path().string(), as_stored);
      EXPECT_EQ(stored_answers(*stored), expected) << dtype << " " << tied;
      EXPECT_EQ(stored_answers(*converted), expected) << dtype << " " << tied;
      // Whoever reads the numbers gets them in the type that the model computes in.
      const auto& parameters = stored->parameters();
      ASSERT_EQ(parameters.size(), converted->parameters().size());
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(parameters[i]->value.dtype(), DType::kFloat32);
        EXPECT_EQ(parameters[i]->value.to_vector<float>(), converted->parameters()[i]->value.to_vector<float>());
      }
      EXPECT_EQ(stored_answers(*stored), expected) << dtype << " " << tied;
    }
}

}  // namespace
}  // namespace transom
