// SPDX-License-Identifier: Apache-2.0
// Constraints whose masks take long hold nobody but their own request, and what is written does not depend on how long
// they take.
#include "work/generation/engine/mask_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "base/error.h"

namespace transom {
namespace {

constexpr const char* kPagedModel = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30,
  "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kRowModel = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 30,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})";

// What all rows of a constraint share with the test.
struct Gate {
  int turns = 0;  // that a mask takes before it is there
  int asked = 0;  // calls of prepare()
  bool fails = false;
};

// Two of three tokens, which ones depends on the text.
class SlowTokens : public TokenConstraint {
 public:
  explicit SlowTokens(std::shared_ptr<Gate> gate) : gate_(std::move(gate)), left_(gate_->turns) {}
  bool prepare(double seconds) override {
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, MaskTurns::kSecondsOfStep);
    ++gate_->asked;
    if (gate_->fails) fail("this constraint fails");
    return --left_ < 0;
  }
  void allowed(std::span<uint32_t> mask) override {
    for (size_t i = 0; i < mask.size() * 32; ++i)
      if ((i + state_) % 3 == 0) mask[i / 32] &= ~(1u << (i % 32));
      else mask[i / 32] |= 1u << (i % 32);
  }
  void accept(int64_t token) override {
    state_ += static_cast<size_t>(token) + 1;
    left_ = gate_->turns;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<SlowTokens>(*this); }

 private:
  std::shared_ptr<Gate> gate_;
  int left_;
  size_t state_ = 0;
};

struct Written {
  TokenIds tokens;
  std::optional<FinishReason> finish;
  std::string error;
};
using WrittenTexts = std::map<uint64_t, Written>;

bool step_once(Engine& engine, WrittenTexts& texts) {
  const bool happened = engine.step();
  for (const EngineEvent& event : engine.take()) {
    Written& text = texts[event.request];
    text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
    text.finish = event.finish;
    text.error = event.error;
  }
  return happened;
}

WrittenTexts all_steps(Engine& engine) {
  WrittenTexts texts;
  while (step_once(engine, texts)) continue;
  return texts;
}

EngineRequest asked_for(TokenIds prompt, const std::string& options, const std::shared_ptr<Gate>& gate = nullptr) {
  EngineRequest request{.prompt = std::move(prompt)};
  request.config.update(options);
  if (gate) request.constraint = std::make_shared<SlowTokens>(gate);
  return request;
}

class SlowMasks : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Model> model = Model::from_config(GetParam());
  const std::string twelve = R"({"max_new_tokens": 12, "do_sample": true, "seed": 3})";
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();

  TokenIds written_alone(const EngineRequest& request) const {
    Engine engine(*model);
    engine.add(request);
    return all_steps(engine).begin()->second.tokens;
  }
};

TEST_P(SlowMasks, HoldNobodyElse) {
  const TokenIds slow_alone = written_alone(asked_for({5, 6}, twelve, gate));
  const TokenIds other_alone = written_alone(asked_for({7, 8, 9}, twelve));
  ASSERT_EQ(slow_alone.size(), 12u);
  gate->turns = 1'000'000;
  Engine engine(*model);
  const uint64_t slow = engine.add(asked_for({5, 6}, twelve, gate));
  const uint64_t other = engine.add(asked_for({7, 8, 9}, twelve));
  WrittenTexts texts;
  for (size_t i = 1; i <= 12; ++i) {
    EXPECT_TRUE(step_once(engine, texts));
    EXPECT_EQ(texts[other].tokens.size(), i) << "a step without a token of the other";
  }
  EXPECT_EQ(texts[other].tokens, other_alone);
  EXPECT_EQ(texts[other].finish, FinishReason::kLength);
  EXPECT_TRUE(texts[slow].tokens.empty());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(step_once(engine, texts)) << "the engine has something to do";
  EXPECT_EQ(engine.statistics().steps, 12) << "nothing is computed while a mask is sought";
}

TEST_P(SlowMasks, ChangeNothingThatIsWritten) {
  EngineRequest request = asked_for({5, 6, 5, 6}, twelve, gate);
  request.config.num_return_sequences = 3;
  Engine at_once(*model), slowly(*model);
  at_once.add(request);
  gate->turns = 4;
  request.constraint = std::make_shared<SlowTokens>(gate);
  slowly.add(request);
  slowly.add(asked_for({7, 8, 9}, twelve));
  std::map<int64_t, TokenIds> fast, slow;
  const auto collect = [](Engine& engine, std::map<int64_t, TokenIds>& tokens) {
    for (const EngineEvent& event : engine.take())
      if (event.request == 1)
        tokens[event.index].insert(tokens[event.index].end(), event.tokens.begin(), event.tokens.end());
  };
  gate->turns = 0;
  while (at_once.step()) collect(at_once, fast);
  gate->turns = 4;
  while (slowly.step()) collect(slowly, slow);
  EXPECT_EQ(fast.size(), 3u);
  EXPECT_EQ(fast, slow);
}

TEST_P(SlowMasks, EndWithTheirRequest) {
  gate->turns = 1'000'000;
  Engine engine(*model);
  const uint64_t cancelled = engine.add(asked_for({5, 6}, twelve, gate));
  const uint64_t late = engine.add(asked_for({5, 6}, R"({"max_new_tokens": 12, "max_time": 0.02})", gate));
  WrittenTexts texts;
  EXPECT_TRUE(step_once(engine, texts));
  engine.cancel(cancelled);
  step_once(engine, texts);
  EXPECT_EQ(texts[cancelled].finish, FinishReason::kCancelled);
  while (!texts[late].finish) ASSERT_TRUE(step_once(engine, texts));
  EXPECT_EQ(texts[late].finish, FinishReason::kLength);
  EXPECT_TRUE(texts[late].tokens.empty());
  const int asked = gate->asked;
  EXPECT_FALSE(step_once(engine, texts));
  EXPECT_EQ(gate->asked, asked) << "nobody waits for the mask";
}

TEST_P(SlowMasks, FailAlone) {
  gate->fails = true;
  Engine engine(*model);
  const uint64_t failing = engine.add(asked_for({5, 6}, twelve, gate));
  const uint64_t other = engine.add(asked_for({7, 8, 9}, twelve));
  WrittenTexts texts = all_steps(engine);
  EXPECT_EQ(texts[failing].finish, FinishReason::kError);
  EXPECT_EQ(texts[failing].error, "this constraint fails");
  EXPECT_EQ(texts[other].tokens.size(), 12u);
}

// Of many that are slow each comes to its end, since they take turns.
TEST_P(SlowMasks, TakeTurns) {
  class Sleeping : public SlowTokens {
   public:
    using SlowTokens::SlowTokens;
    bool prepare(double seconds) override {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return SlowTokens::prepare(seconds);
    }
    std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Sleeping>(*this); }
  };
  constexpr int kRequests = 4;
  gate->turns = 3;
  Engine engine(*model);
  EngineRequest request = asked_for({5, 6}, R"({"max_new_tokens": 1})");
  request.constraint = std::make_shared<Sleeping>(gate);
  for (int i = 0; i < kRequests; ++i) engine.add(request);
  WrittenTexts texts;
  EXPECT_TRUE(step_once(engine, texts));
  EXPECT_EQ(gate->asked, kRequests + 1) << "each at first, and one for the time of a step";
  const WrittenTexts rest = all_steps(engine);
  EXPECT_EQ(rest.size(), static_cast<size_t>(kRequests));
  EXPECT_EQ(gate->asked, kRequests * (gate->turns + 1));
}

INSTANTIATE_TEST_SUITE_P(Models, SlowMasks, testing::Values(kPagedModel, kRowModel),
                         [](const auto& info) { return std::string(info.index == 0 ? "Paged" : "RowByRow"); });

// 3, 4, 5, 3, 4, 5 ...; each third mask takes some turns.
class SlowNowAndThen : public TokenConstraint {
 public:
  explicit SlowNowAndThen(int turns) : turns_(turns) {}
  bool prepare(double /*seconds*/) override { return left_-- <= 0; }
  void allowed(std::span<uint32_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    mask[0] = 1u << (3 + count_ % 3);
  }
  void accept(int64_t /*token*/) override { left_ = ++count_ % 3 == 0 ? turns_ : 0; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<SlowNowAndThen>(*this); }

 private:
  int turns_, left_ = 0, count_ = 0;
};

// Where the mask behind a token of a draft is not there, the rest of the draft is given up.
TEST(SlowMasksOfDrafts, ChangeNothingThatIsWritten) {
  const auto model = Model::from_config(kPagedModel);
  const auto written_with = [&](int64_t lookup, int turns, int64_t* accepted) {
    EngineRequest request = asked_for({3, 4, 5, 3, 4, 5}, R"({"max_new_tokens": 30})");
    request.constraint = std::make_shared<SlowNowAndThen>(turns);
    request.prompt_lookup_num_tokens = lookup;
    Engine engine(*model);
    engine.add(request);
    const TokenIds tokens = all_steps(engine).begin()->second.tokens;
    *accepted = engine.statistics().accepted_tokens;
    return tokens;
  };
  int64_t none = 0, all = 0, some = 0;
  const TokenIds plain = written_with(0, 0, &none);
  EXPECT_EQ(plain.size(), 30u);
  EXPECT_EQ(written_with(4, 0, &all), plain);
  EXPECT_EQ(written_with(4, 3, &some), plain);
  EXPECT_EQ(none, 0);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, all);
}

}  // namespace
}  // namespace transom
