// SPDX-License-Identifier: Apache-2.0
// generate() on models made from a configuration: what must hold whatever they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/message.h"
#include "transom/error.h"
#include "transom/generation.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kGpt2Model = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30,
  "n_positions": 200, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 30,
  "max_position_embeddings": 200, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 20, "initializer_range": 0.6})";
constexpr const char* kBartModel = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 30, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 200,
  "init_std": 0.6, "is_encoder_decoder": true, "decoder_start_token_id": 2, "pad_token_id": 1})";

Tensor ids(const std::vector<int64_t>& values, int64_t rows = 1) {
  return Tensor::from(values, {rows, static_cast<int64_t>(values.size()) / rows});
}

GenerationConfig config_of(const std::string& options) {
  GenerationConfig config;
  config.update(options);
  return config;
}

std::vector<TokenIds> written(const Model& model, const NamedTensors& inputs, const std::string& options) {
  return generate(model, inputs, config_of(options)).sequences;
}

const NamedTensors& prompt() {
  static const NamedTensors inputs{{"input_ids", ids({3, 14, 15, 9})}};
  return inputs;
}

// The likeliest token by whole forward passes, without a cache.
TokenIds greedy_by_hand(const Model& model, TokenIds row, int64_t count) {
  const NoGradient inference;
  for (int64_t i = 0; i < count; ++i) {
    const auto logits = model.forward({{"input_ids", ids(row)}}).at("logits").to_vector<float>();
    const auto last = logits.end() - 30;
    row.push_back(std::max_element(last, logits.end()) - last);
  }
  return row;
}

class DecoderOnly : public testing::TestWithParam<const char*> {};

TEST_P(DecoderOnly, GreedySearchTakesTheLikeliest) {
  const auto model = Model::from_config(GetParam());
  // Far enough that the cache outgrows its first capacity.
  const TokenIds expected = greedy_by_hand(*model, {3, 14, 15, 9}, 80);
  EXPECT_EQ(written(*model, prompt(), R"({"max_new_tokens": 80})")[0], expected);
  EXPECT_EQ(written(*model, prompt(), R"({"max_length": 20})")[0], TokenIds(expected.begin(), expected.begin() + 20));
  EXPECT_EQ(written(*model, prompt(), R"({"max_new_tokens": 80, "use_cache": false})")[0], expected);
  EXPECT_EQ(written(*model, prompt(), "{}")[0].size(), 24U);
}

TEST_P(DecoderOnly, EveryModeWritesTheSame) {
  const auto model = Model::from_config(GetParam());
  const auto expected = written(*model, prompt(), R"({"max_new_tokens": 12, "num_beams": 3})");
  for (const Mode other : {Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    set_mode(other);
    EXPECT_EQ(written(*model, prompt(), R"({"max_new_tokens": 12, "num_beams": 3})"), expected);
    set_mode(Mode::kLazy);
  }
}

TEST_P(DecoderOnly, PaddingOnTheLeftChangesNothing) {
  const auto model = Model::from_config(GetParam());
  const NamedTensors both{{"input_ids", ids({0, 0, 7, 3, 14, 15}, 2)}, {"attention_mask", ids({0, 0, 1, 1, 1, 1}, 2)}};
  for (const char* options : {R"({"max_new_tokens": 10})", R"({"max_new_tokens": 10, "num_beams": 3})"}) {
    const auto rows = written(*model, both, options);
    const auto first = written(*model, {{"input_ids", ids({7})}}, options),
               second = written(*model, {{"input_ids", ids({3, 14, 15})}}, options);
    EXPECT_EQ(TokenIds(rows[0].begin() + 2, rows[0].end()), first[0]);
    EXPECT_EQ(rows[1], second[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderOnly, testing::Values(kGpt2Model, kLlama),
                         [](const auto& info) { return info.index == 0 ? "gpt2" : "llama"; });

TEST(Generate, EndsAtAnyEndTokenAndFillsUp) {
  const auto model = Model::from_config(kGpt2Model);
  const TokenIds free = written(*model, prompt(), R"({"max_new_tokens": 30})")[0];
  const int64_t end = free[9];
  const auto place = static_cast<size_t>(std::find(free.begin() + 4, free.end(), end) - free.begin());
  int64_t other = 0;  // a token that does not come
  while (std::find(free.begin(), free.end(), other) != free.end()) ++other;
  const std::string options = R"({"max_new_tokens": 30, "pad_token_id": 29, "eos_token_id": [)" +
                              std::to_string(other) + ", " + std::to_string(end) + "]}";
  const TokenIds ended = written(*model, prompt(), options)[0];
  EXPECT_EQ(ended, TokenIds(free.begin(), free.begin() + static_cast<ptrdiff_t>(place) + 1));
  // Beside a row that goes on, the one that ended is filled with padding.
  const auto rows = written(*model, {{"input_ids", ids({3, 14, 15, 9, 4, 4, 4, 4}, 2)}}, options);
  ASSERT_EQ(rows[0].size(), rows[1].size());
  for (size_t t = place + 1; t < rows[0].size(); ++t) EXPECT_EQ(rows[0][t], 29);
}

TEST(Generate, BeamsFindTextsAtLeastAsLikely) {
  const auto model = Model::from_config(kGpt2Model);
  const NoGradient inference;
  const auto likelihood = [&](const TokenIds& row) {
    const auto logits = model->forward({{"input_ids", ids(row)}}).at("logits").to_vector<float>();
    double total = 0;
    for (size_t t = 4; t < row.size(); ++t) {
      const float* scores = logits.data() + (t - 1) * 30;
      double sum = 0;
      for (int i = 0; i < 30; ++i) sum += std::exp(scores[i]);
      total += scores[row[t]] - std::log(sum);
    }
    return total;
  };
  GenerationConfig config =
      config_of(R"({"max_new_tokens": 6, "num_beams": 5, "num_return_sequences": 4, "length_penalty": 0})");
  const GenerationOutput beams = generate(*model, prompt(), config);
  ASSERT_EQ(beams.sequences.size(), 4U);
  EXPECT_TRUE(std::is_sorted(beams.scores.begin(), beams.scores.end(), std::greater<>()));
  EXPECT_EQ(std::set<TokenIds>(beams.sequences.begin(), beams.sequences.end()).size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(beams.scores[i], likelihood(beams.sequences[i]), 1e-4);
  EXPECT_GE(beams.scores[0], likelihood(written(*model, prompt(), R"({"max_new_tokens": 6})")[0]) - 1e-4);
}

TEST(Generate, SamplesAreTheSameForASeed) {
  const auto model = Model::from_config(kGpt2Model);
  const std::string options = R"({"do_sample": true, "max_new_tokens": 20, "num_return_sequences": 3, "seed": )";
  const auto first = written(*model, prompt(), options + "7}");
  ASSERT_EQ(first.size(), 3U);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(first, written(*model, prompt(), options + "7}"));
  EXPECT_NE(first, written(*model, prompt(), options + "8}"));
  // Of one token there is no choice.
  EXPECT_EQ(written(*model, prompt(), R"({"do_sample": true, "top_k": 1, "max_new_tokens": 20})"),
            written(*model, prompt(), R"({"max_new_tokens": 20})"));
}

TEST(Generate, SamplesFollowTheProbabilities) {
  const auto model = Model::from_config(kGpt2Model);
  const NoGradient inference;
  const auto logits = model->forward(prompt()).at("logits").to_vector<float>();
  std::vector<double> p(logits.end() - 30, logits.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x);
  std::vector<double> seen(30);
  constexpr int kDraws = 4000;
  for (const TokenIds& row : written(
           *model, prompt(), R"({"do_sample": true, "top_k": 0, "max_new_tokens": 1, "num_return_sequences": 4000})"))
    seen[static_cast<size_t>(row.back())] += 1.0 / kDraws;
  for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(seen[i], p[i] / sum, 0.04) << i;
}

TEST(Generate, EncoderDecodersBeginWithTheirStart) {
  const auto model = Model::from_config(kBartModel);
  const NamedTensors inputs{{"input_ids", ids({4, 5, 6, 7, 8, 9}, 2)}, {"attention_mask", ids({1, 1, 1, 1, 1, 0}, 2)}};
  const std::string options = R"("decoder_start_token_id": 2, "pad_token_id": 1, "max_new_tokens": 12})";
  const auto rows = written(*model, inputs, "{" + options);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0][0], 2);
  // Rows do not know each other, and padding is not read.
  EXPECT_EQ(written(*model, {{"input_ids", ids({4, 5, 6})}}, "{" + options)[0], rows[0]);
  EXPECT_EQ(written(*model, {{"input_ids", ids({7, 8})}}, "{" + options)[0], rows[1]);
  EXPECT_EQ(written(*model, inputs, R"({"use_cache": false, )" + options), rows);
  const auto beams = written(*model, inputs, R"({"num_beams": 3, )" + options);
  EXPECT_EQ(written(*model, {{"input_ids", ids({7, 8})}}, R"({"num_beams": 3, )" + options)[0], beams[1]);
  // A text that is begun already goes on.
  NamedTensors begun{{"input_ids", ids({4, 5, 6})}, {"decoder_input_ids", ids({2, rows[0][1], rows[0][2]})}};
  const TokenIds longer = written(*model, begun, "{" + options)[0];
  EXPECT_EQ(TokenIds(longer.begin(), longer.begin() + 13), rows[0]);
}

// Without a mask an encoder reads padding too, as in Transformers.
TEST(Generate, EncodersDoNotGuessWhatIsPadding) {
  const Tensor padded = ids({7, 8, 1, 1, 1, 1});
  const std::string options = R"({"decoder_start_token_id": 2, "pad_token_id": 1, "max_new_tokens": 6})";
  int differ = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto model = Model::from_config(kBartModel, {.seed = seed});
    const auto rows = written(*model, {{"input_ids", padded}}, options);
    EXPECT_EQ(rows, written(*model, {{"input_ids", padded}, {"attention_mask", ids({1, 1, 1, 1, 1, 1})}}, options));
    differ += rows != written(*model, {{"input_ids", padded}, {"attention_mask", ids({1, 1, 0, 0, 0, 0})}}, options);
  }
  EXPECT_GT(differ, 0);
}

class Listener : public Streamer {
 public:
  void put(const TokenIds& ids) override { parts.push_back(ids); }
  void end() override { ended = true; }
  std::vector<TokenIds> parts;
  bool ended = false;
};

TEST(Generate, TellsAStreamerEachToken) {
  const auto model = Model::from_config(kGpt2Model);
  Listener listener;
  const auto row = generate(*model, prompt(), config_of(R"({"max_new_tokens": 3})"), {.streamer = &listener}).sequences;
  ASSERT_EQ(listener.parts.size(), 4U);
  EXPECT_EQ(listener.parts[0], (TokenIds{3, 14, 15, 9}));
  TokenIds all;
  for (const TokenIds& part : listener.parts) all.insert(all.end(), part.begin(), part.end());
  EXPECT_EQ(all, row[0]);
  EXPECT_TRUE(listener.ended);
}

TEST(Generate, LetsACallerChangeScores) {
  const auto model = Model::from_config(kGpt2Model);
  GenerationOptions options;
  options.process_logits = [](const TokenIds& tokens, std::span<float> scores) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (i != (static_cast<size_t>(tokens.back()) + 1) % 30) scores[i] = -std::numeric_limits<float>::infinity();
  };
  EXPECT_EQ(generate(*model, prompt(), config_of(R"({"max_new_tokens": 3})"), options).sequences[0],
            (TokenIds{3, 14, 15, 9, 10, 11, 12}));
}

TEST(Generate, RefusesWhatItCannotDo) {
  const auto model = Model::from_config(kGpt2Model);
  const auto message = [&](const NamedTensors& inputs, const std::string& options) {
    return test::message_of([&] { written(*model, inputs, options); });
  };
  EXPECT_NE(message(prompt(), R"({"num_return_sequences": 2})").find("num_return_sequences"), std::string::npos);
  EXPECT_NE(message(prompt(), R"({"num_beams": 2, "num_return_sequences": 3})").find("num_beams = 2"),
            std::string::npos);
  EXPECT_NE(message(prompt(), R"({"max_length": 3})").find("max_length"), std::string::npos);
  EXPECT_NE(message(prompt(), R"({"stop_strings": "a"})").find("tokenizer"), std::string::npos);
  EXPECT_NE(message({{"pixel_values", ids({1})}}, "{}").find("pixel_values"), std::string::npos);
  EXPECT_NE(message({{"input_ids", ids({3, 30})}}, "{}"), "");
  EXPECT_NE(message({{"input_ids", ids({3, 4})}, {"attention_mask", ids({1})}}, "{}").find("attention_mask"),
            std::string::npos);
  const auto body = Model::from_config(R"({"model_type": "gpt2", "architectures": ["GPT2Model"], "vocab_size": 30,
    "n_positions": 20, "n_embd": 16, "n_layer": 1, "n_head": 2})");
  EXPECT_NE(test::message_of([&] { generate(*body, prompt(), {}); }).find("GPT2Model"), std::string::npos);
}

}  // namespace
}  // namespace transom
