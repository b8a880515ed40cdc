// SPDX-License-Identifier: Apache-2.0
// Processes that compute one model together: all of them hold the tokens of the one that leads, whatever they compute.
#include "work/generation/processes/follow.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "runtime/tensor/evaluator.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/generation.h"

namespace transom {
namespace {

// Two processes as threads, which exchange what they say in turns.
struct Meeting {
  std::barrier<> both{2};
  std::string said;
};

class Half : public Evaluator {
 public:
  Half(Meeting& meeting, bool leads) : meeting_(meeting), leads_(leads) {}
  std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) override {
    std::vector<Tensor> all(outputs.begin(), outputs.end());
    all.insert(all.end(), state.begin(), state.end());
    eval(all);
    return state;
  }
  bool leads() const override { return leads_; }
  std::string from_leader(const std::string& mine) override {
    ++count;
    if (leads_) meeting_.said = mine;
    meeting_.both.arrive_and_wait();
    std::string said = meeting_.said;
    meeting_.both.arrive_and_wait();
    return said;
  }
  int count = 0;

 private:
  Meeting& meeting_;
  bool leads_;
};

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 31,
  "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6, "bos_token_id": 1,
  "eos_token_id": 2})";
constexpr const char* kBart = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 31, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 40,
  "init_std": 0.6, "is_encoder_decoder": true, "decoder_start_token_id": 2, "pad_token_id": 1, "eos_token_id": 3})";

struct Answer {
  GenerationOutput output;
  std::string error;
};

// A process's answer with weights of its own: what leads has seed 1, what follows seed 2.
class Following : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device("cpu"); }
  static GenerationConfig config_of(const std::string& options) {
    GenerationConfig config;
    config.update(options);
    config.decoder_start_token_id = 2;  // of BART
    return config;
  }
  static NamedTensors prompts() {
    return {{"input_ids", Tensor::from(std::vector<int64_t>{3, 14, 15, 9, 4, 4, 5, 6}, {2, 4})}};
  }
  Answer answer(uint64_t seed, const std::string& options, const GenerationOptions& more = {},
                const NamedTensors& inputs = prompts()) const {
    const auto model = Model::from_config(GetParam(), {.seed = seed});
    Answer result;
    try {
      result.output = generate(*model, inputs, config_of(options), more);
    } catch (const Error& error) {
      result.error = error.what();
    }
    return result;
  }
  std::pair<Answer, Answer> together(const std::string& options, const GenerationOptions& leading = {}) const {
    Meeting meeting;
    Half first(meeting, true), second(meeting, false);
    std::pair<Answer, Answer> result;
    std::thread follower([&] {
      const EvaluatorScope scope(&second);
      result.second = answer(2, options);
    });
    {
      const EvaluatorScope scope(&first);
      result.first = answer(1, options, leading);
    }
    follower.join();
    EXPECT_EQ(first.count, second.count);
    return result;
  }
};

TEST_P(Following, AllHoldTheTokensOfTheOneThatLeads) {
  for (const char* options :
       {R"({"max_new_tokens": 9})", R"({"max_new_tokens": 9, "do_sample": true, "seed": 5, "num_return_sequences": 3})",
        R"({"max_new_tokens": 9, "num_beams": 3, "num_return_sequences": 2})",
        R"({"max_new_tokens": 9, "num_beams": 2, "do_sample": true, "seed": 3})",
        R"({"max_new_tokens": 9, "use_cache": false})"}) {
    const Answer alone = answer(1, options), other = answer(2, options);
    ASSERT_EQ(alone.error, "");
    ASSERT_NE(alone.output.sequences, other.output.sequences) << options;
    const auto [first, second] = together(options);
    EXPECT_EQ(first.error, "");
    EXPECT_EQ(second.error, "");
    EXPECT_EQ(first.output.sequences, alone.output.sequences) << options;
    EXPECT_EQ(second.output.sequences, alone.output.sequences) << options;
    EXPECT_EQ(second.output.scores, alone.output.scores) << options;
  }
}

TEST_P(Following, AnErrorOfTheOneThatLeadsIsThatOfAll) {
  int tokens = 0;
  GenerationOptions leading;
  leading.process_logits = [&](const TokenIds&, std::span<float>) {
    if (++tokens == 5) throw Error(ErrorKind::kInput, "the fifth token is refused");
  };
  const auto [first, second] = together(R"({"max_new_tokens": 9})", leading);
  EXPECT_EQ(first.error, "the fifth token is refused");
  EXPECT_EQ(second.error, first.error);
}

// Says what it is told to, one message after the other, the last again and again, and keeps what it is given.
class Recital : public Evaluator {
 public:
  Recital(bool leads, std::vector<std::string> messages) : leads_(leads), messages_(std::move(messages)) {}
  std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) override {
    std::vector<Tensor> all(outputs.begin(), outputs.end());
    all.insert(all.end(), state.begin(), state.end());
    eval(all);
    return state;
  }
  bool leads() const override { return leads_; }
  std::string from_leader(const std::string& mine) override {
    heard.push_back(mine);
    return messages_.empty() ? mine : messages_[std::min(heard.size(), messages_.size()) - 1];
  }
  std::vector<std::string> heard;

 private:
  bool leads_;
  std::vector<std::string> messages_;
};

// A process that has other prompts than the one that leads would compute something else in silence.
TEST_P(Following, OtherInputsAreRefused) {
  const auto ids = [](std::vector<int64_t> values) { return Tensor::from(values, {2, 4}); };
  NamedTensors given = prompts();
  given.set("attention_mask", ids({1, 1, 1, 1, 0, 1, 1, 1}));
  const char* options = R"({"max_new_tokens": 3})";
  Recital leader(true, {});
  {
    const EvaluatorScope scope(&leader);
    ASSERT_EQ(answer(1, options, {}, given).error, "");
  }
  const auto error_of = [&](const NamedTensors& inputs, const char* with) {
    Recital follower(false, leader.heard);
    const EvaluatorScope scope(&follower);
    return answer(1, with, {}, inputs).error;
  };
  EXPECT_EQ(error_of(given, options), "");
  NamedTensors other = given;
  other.set("attention_mask", ids({1, 1, 1, 1, 0, 0, 1, 1}));
  const bool encodes = GetParam() == kBart;
  const std::string mask = encodes ? "the inputs of the encoder" : "the attention masks";
  EXPECT_NE(error_of(other, options).find("expected " + mask + " of rank 0"), std::string::npos);
  other = given;
  other.set("input_ids", ids({3, 14, 15, 9, 4, 4, 5, 7}));
  const std::string prompt = encodes ? "the inputs of the encoder" : "the prompts";
  EXPECT_NE(error_of(other, options).find("expected " + prompt + " of rank 0"), std::string::npos);
  EXPECT_NE(error_of(given, R"({"max_new_tokens": 4})").find("expected the greatest length of rank 0"),
            std::string::npos);
}

TEST_P(Following, MessagesOfNoMeaningAreRefused) {
  Recital leader(true, {});
  {
    const EvaluatorScope scope(&leader);
    answer(1, R"({"max_new_tokens": 9})");
  }
  using Kind = ProcessCommand::Kind;
  const std::string run = bytes_of({.kind = Kind::kRun});
  for (const std::string& message :
       {std::string(), std::string("x"), run.substr(0, run.size() - 1), std::string(8, '\xff'), run,
        bytes_of({.kind = Kind::kEnd}), bytes_of({.kind = Kind::kRead}),
        bytes_of({.kind = Kind::kRead, .numbers = {4, 0}}), bytes_of({.kind = Kind::kRead, .numbers = {INT64_MAX, 1}}),
        bytes_of({.kind = Kind::kRead, .numbers = {INT64_MIN, 1}}), bytes_of({.kind = Kind::kRepeat}),
        bytes_of({.kind = Kind::kRepeat, .numbers = {0}}), bytes_of({.kind = Kind::kReorder, .numbers = {1, 0}})}) {
    for (const bool begins : {false, true}) {
      Recital liar(false, begins ? std::vector{leader.heard[0], message} : std::vector{message});
      const EvaluatorScope scope(&liar);
      const std::string error = answer(1, R"({"max_new_tokens": 9})").error;
      EXPECT_TRUE(error.starts_with("expected a command of the process that leads") ||
                  error.starts_with("generate: expected"))
          << error;
    }
  }
}

// An engine's command beside those of a search, and the reverse.
TEST_P(Following, CommandsOfOthersAreRefused) {
  if (GetParam() == kBart) GTEST_SKIP() << "is not computed over a paged cache";
  const auto model = Model::from_config(GetParam());
  using Kind = ProcessCommand::Kind;
  const std::string make =
      bytes_of({.kind = Kind::kMake, .blocks = 2, .block_size = 4, .cache_dtype = DType::kFloat32});
  for (const std::vector<std::string>& messages :
       {std::vector{bytes_of({.kind = Kind::kRun})}, std::vector{make, bytes_of({.kind = Kind::kRead})},
        std::vector{make, bytes_of({.kind = Kind::kAnswer})}}) {
    Recital liar(false, messages);
    EXPECT_NE(test::message_of([&] { follow_engine(*model, liar); }).find("expected a command"), std::string::npos);
  }
  Recital leader(false, {make, bytes_of({.kind = Kind::kEnd})});
  EXPECT_EQ(test::message_of([&] { follow_engine(*model, leader); }), "");
}

INSTANTIATE_TEST_SUITE_P(Families, Following, testing::Values(kGpt2, kBart),
                         [](const auto& info) { return std::string(info.param == kGpt2 ? "Gpt2" : "Bart"); });

}  // namespace
}  // namespace transom
