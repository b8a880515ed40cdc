// SPDX-License-Identifier: Apache-2.0
// Embeddings in place of tokens: those of the tokens give their texts, to the last bit of the scores, and others
// others.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/generation.h"
#include "transom/ops.h"

namespace transom {
namespace {

struct EmbedsKind {
  const char* name;
  const char* config;
  const char* table;
};
constexpr EmbedsKind kGpt2Embeds{"Gpt2",
                                 R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 31,
  "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6, "bos_token_id": 1,
  "eos_token_id": 2})",
                                 "transformer.wte.weight"};
constexpr EmbedsKind kLlamaEmbeds{"Llama",
                                  R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 31,
  "max_position_embeddings": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 20, "initializer_range": 0.6, "bos_token_id": 1, "eos_token_id": 2})",
                                  "model.embed_tokens.weight"};
// Biases by distance.
constexpr EmbedsKind kBloomEmbeds{"Bloom",
                                  R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 31,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6, "bos_token_id": 1, "eos_token_id": 2})",
                                  "transformer.word_embeddings.weight"};

struct WrittenScores {
  std::vector<TokenIds> texts;
  std::vector<std::vector<float>> scores;  // of each token, before one is chosen
  bool operator==(const WrittenScores&) const = default;
};

class InputsEmbeds : public testing::TestWithParam<EmbedsKind> {
 protected:
  void SetUp() override { set_device("cpu"); }
  Tensor rows_of(const Tensor& ids) const {
    for (const auto& parameter : model->parameters())
      if (parameter->name == GetParam().table) return gather(parameter->value, ids, 0);
    fail(ErrorKind::kInternal, "no table {}", GetParam().table);
  }
  WrittenScores written(const NamedTensors& inputs, const std::string& options, int64_t dropped = 0) const {
    GenerationConfig config;
    config.update(options);
    WrittenScores result;
    const auto keep = [&](const TokenIds&, std::span<float> scores) {
      result.scores.emplace_back(scores.begin(), scores.end());
    };
    result.texts =
        generate(*model, inputs, config, {.streamer = nullptr, .tokenizer = nullptr, .process_logits = keep}).sequences;
    for (TokenIds& text : result.texts) text.erase(text.begin(), text.begin() + dropped);
    return result;
  }
  std::string refused(const NamedTensors& inputs, const std::string& options = R"({"max_new_tokens": 3})") const {
    return test::message_of([&] { written(inputs, options); });
  }

  const std::unique_ptr<Model> model = Model::from_config(GetParam().config, {.seed = 5});
  const Tensor ids = Tensor::from(std::vector<int64_t>{1, 3, 14, 15, 9, 1, 1, 4, 5, 6}, {2, 5});
  const Tensor mask = Tensor::from(std::vector<int64_t>{1, 1, 1, 1, 1, 0, 0, 1, 1, 1}, {2, 5});
};

TEST_P(InputsEmbeds, OfTheTokensGiveTheirTexts) {
  const Tensor rows = rows_of(ids);
  for (const char* options :
       {R"({"max_new_tokens": 9})", R"({"max_new_tokens": 9, "use_cache": false})",
        R"({"max_length": 12, "min_length": 11})", R"({"max_new_tokens": 9, "min_new_tokens": 9, "num_beams": 3})",
        R"({"max_new_tokens": 9, "do_sample": true, "seed": 5, "num_return_sequences": 3})"}) {
    const WrittenScores by_tokens = written({{"input_ids", ids}, {"attention_mask", mask}}, options, 5);
    EXPECT_EQ(written({{"inputs_embeds", rows}, {"attention_mask", mask}}, options), by_tokens) << options;
    EXPECT_EQ(written({{"input_ids", ids}, {"inputs_embeds", rows}, {"attention_mask", mask}}, options, 5), by_tokens)
        << options;
    const WrittenScores by_others = written({{"inputs_embeds", rows * 1.01}, {"attention_mask", mask}}, options);
    ASSERT_EQ(by_others.scores[0].size(), by_tokens.scores[0].size());
    EXPECT_NE(by_others.scores[0], by_tokens.scores[0]) << options;
  }
}

TEST_P(InputsEmbeds, PenaltiesAreOfTokens) {
  const Tensor rows = rows_of(ids), other = Tensor::from(std::vector<int64_t>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, {2, 5});
  const char* options = R"({"max_new_tokens": 6, "repetition_penalty": 1.7})";
  // Those of the rows' tokens, whatever is computed from the embeddings; without tokens those of what is written.
  const WrittenScores plain = written({{"input_ids", ids}}, options, 5);
  EXPECT_EQ(written({{"input_ids", ids}, {"inputs_embeds", rows}}, options, 5), plain);
  EXPECT_NE(written({{"input_ids", other}, {"inputs_embeds", rows}}, options, 5), plain);
  const WrittenScores alone = written({{"inputs_embeds", rows}}, options);
  EXPECT_EQ(alone.scores[0], written({{"input_ids", ids}}, R"({"max_new_tokens": 1})").scores[0]);
}

// Padding stands before embeddings, not before what is written.
TEST_P(InputsEmbeds, PenaltiesAreOfAllTokensThatAreWritten) {
  const Tensor rows = rows_of(ids), second = slice(rows, 0, 1, 2);
  const char* options = R"({"max_new_tokens": 8, "repetition_penalty": 1.9})";
  const WrittenScores padded = written({{"inputs_embeds", rows}, {"attention_mask", mask}}, options);
  EXPECT_EQ(padded.texts.at(1), written({{"inputs_embeds", slice(second, 1, 2, 5)}}, options).texts.at(0));
}

TEST_P(InputsEmbeds, AreRefusedByName) {
  const Tensor rows = rows_of(ids);
  EXPECT_NE(refused({{"inputs_embeds", slice(rows, 2, 0, 15)}}).find("inputs_embeds: expected [batch, length, 16]"),
            std::string::npos);
  EXPECT_NE(refused({{"inputs_embeds", ids}}).find("inputs_embeds: expected"), std::string::npos);
  EXPECT_NE(refused({{"input_ids", ids}, {"pixel_values", rows}}).find("unknown input 'pixel_values'"),
            std::string::npos)
      << refused({{"input_ids", ids}, {"pixel_values", rows}});
  EXPECT_NE(refused({{"input_ids", slice(ids, 1, 0, 4)}, {"inputs_embeds", rows}}).find("fills 5 places from 0 on"),
            std::string::npos);
  EXPECT_NE(refused({{"input_ids", slice(ids, 0, 0, 1)}, {"inputs_embeds", rows}}).find("1 rows of tokens"),
            std::string::npos);
  EXPECT_NE(refused({{"inputs_embeds", rows}}, R"({"max_new_tokens": 3, "encoder_repetition_penalty": 2})")
                .find("give input_ids too"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, InputsEmbeds, testing::Values(kGpt2Embeds, kLlamaEmbeds, kBloomEmbeds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(InputsEmbedsOfOthers, AreRefusedWhereAModelReadsTokensAlone) {
  const auto model = Model::from_config(R"({"model_type": "bert", "architectures": ["BertLMHeadModel"],
    "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 16, "is_decoder": true})");
  const std::string error = test::message_of([&] {
    generate(*model, {{"inputs_embeds", zeros({1, 3, 16})}}, GenerationConfig());
  });
  EXPECT_NE(error.find("unknown input 'inputs_embeds'"), std::string::npos) << error;
}

}  // namespace
}  // namespace transom
