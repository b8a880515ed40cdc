// SPDX-License-Identifier: Apache-2.0
// Inputs among the tokens of a request: what they hold is what is computed and what the prefix cache goes by.
#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <thread>

#include "base/error.h"
#include "runtime/tensor/evaluator.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/engine.h"
#include "transom/ops.h"
#include "work/generation/processes/follow.h"

namespace transom {
namespace {

struct Reader {
  const char* name;
  const char* config;
  const char* table;
};
constexpr Reader kGpt2Reader{"Gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 31,
  "n_positions": 96, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})",
                             "transformer.wte.weight"};
constexpr Reader kLlamaReader{"Llama",
                              R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 31,
  "max_position_embeddings": 96, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 20, "initializer_range": 0.6})",
                              "model.embed_tokens.weight"};
constexpr Reader kBloomReader{"Bloom",
                              R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 31,
  "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.6})",
                              "transformer.word_embeddings.weight"};  // row by row

struct Told {
  TokenIds tokens;
  std::vector<float> logprobs;
  int64_t cached = 0;
  std::string error;
  bool says_as(const Told& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && error == other.error;
  }
};

std::map<std::pair<uint64_t, int64_t>, Told> all_told(Engine& engine) {
  std::map<std::pair<uint64_t, int64_t>, Told> result;
  while (engine.step())
    for (const EngineEvent& event : engine.take()) {
      Told& told = result[{event.request, event.index}];
      told.tokens.insert(told.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& at : event.logprobs) told.logprobs.push_back(at.logprob);
      for (const TokenLogprobs& at : event.prompt) told.logprobs.push_back(at.logprob);
      told.cached += event.cached_tokens;
      told.error += event.error;
    }
  return result;
}

class AttachedInputs : public testing::TestWithParam<Reader> {
 protected:
  void SetUp() override { set_device("cpu"); }
  Tensor table() const {
    for (const auto& parameter : model->parameters())
      if (parameter->name == GetParam().table) return parameter->value;
    fail(ErrorKind::kInternal, "no table {}", GetParam().table);
  }
  // The rows of the tokens at the places, times `factor`.
  AttachedInput input(const TokenIds& tokens, FilledPlaces places, double factor = 1) const {
    const TokenIds some(tokens.begin() + places.begin, tokens.begin() + places.end());
    const Tensor rows = gather(table(), Tensor::from(some, {places.count}), 0) * factor;
    return {.tensors = {{"inputs_embeds", Tensor::from(rows.to_vector<float>(), rows.shape())}}, .places = {places}};
  }
  static EngineRequest request(ModelInputs prompt, int64_t tokens = 6) {
    EngineRequest made{.prompt = std::move(prompt)};
    made.config.max_new_tokens = tokens;
    made.logprobs = 0;
    return made;
  }
  static TokenIds text(int64_t length, int64_t step = 7) {
    TokenIds tokens;
    for (int64_t i = 0; i < length; ++i) tokens.push_back((3 + i * step) % 31);
    return tokens;
  }
  Told told(Engine& engine, const EngineRequest& one) const {
    engine.add(one);
    return all_told(engine).begin()->second;
  }
  Told told_alone(const EngineRequest& one) const {
    Engine engine(*model, {.prefix_caching = false});
    return told(engine, one);
  }
  bool is_paged() const { return GetParam().name != std::string_view("Bloom"); }

  const std::unique_ptr<Model> model = Model::from_config(GetParam().config, {.seed = 4});
};

TEST_P(AttachedInputs, OfTheTokensGiveTheirBits) {
  const TokenIds tokens = text(21);
  EngineRequest plain = request(tokens);
  plain.prompt_logprobs = 0;
  const Told expected = told_alone(plain);
  ASSERT_EQ(expected.tokens.size(), 6u);
  for (const FilledPlaces places : {FilledPlaces{0, 21}, FilledPlaces{0, 3}, FilledPlaces{5, 9}, FilledPlaces{20, 1}}) {
    EngineRequest filled = plain;
    filled.prompt.attached = {input(tokens, places)};
    EXPECT_TRUE(told_alone(filled).says_as(expected)) << places.begin;
    filled.prompt.attached = {input(tokens, places, 1.5)};
    EXPECT_NE(told_alone(filled).logprobs, expected.logprobs) << places.begin;
    // What stands in a place is the row, whatever token is told.
    EngineRequest other = request(tokens), same = request(tokens);
    other.prompt.attached = same.prompt.attached = {input(tokens, places, 1.5)};
    for (int64_t place = places.begin; place < places.end(); ++place)
      other.prompt.tokens[static_cast<size_t>(place)] = 30 - tokens[static_cast<size_t>(place)];
    EXPECT_TRUE(told_alone(other).says_as(told_alone(same))) << places.begin;
  }
}

TEST_P(AttachedInputs, GiveWhatGenerateGives) {
  const TokenIds tokens = text(12);
  const AttachedInput all = input(tokens, {0, 12}, 1.25);
  const Tensor rows = unsqueeze(all.tensors.at("inputs_embeds"), 0);
  for (const char* options :
       {R"({"max_new_tokens": 8})", R"({"max_new_tokens": 8, "num_beams": 3, "num_return_sequences": 2})",
        R"({"max_new_tokens": 8, "do_sample": true, "seed": 3})"}) {
    EngineRequest one{.prompt = {tokens, {all}}};
    one.config.update(options);
    Engine engine(*model);
    engine.add(one);
    std::vector<TokenIds> texts;
    for (const auto& [key, each] : all_told(engine)) texts.push_back(each.tokens);
    EXPECT_EQ(texts, generate(*model, {{"inputs_embeds", rows}}, one.config).sequences) << options;
  }
}

// With placeholders that are all the same: two pictures never share keys, and one picture finds its own.
TEST_P(AttachedInputs, AreFoundAgainByWhatTheyHold) {
  if (!is_paged()) GTEST_SKIP() << "keeps no prefixes";
  TokenIds tokens = text(40);
  std::fill(tokens.begin() + 10, tokens.begin() + 26, 5);
  const FilledPlaces places{10, 16};
  const auto with = [&](double factor, FilledPlaces at) {
    return request({tokens, {{.tensors = input(text(40), places, factor).tensors, .places = {at}}}});
  };
  const EngineRequest one = with(1, places), two = with(1.5, places), moved = with(1, {11, 16}),
                      plain = request(tokens);
  Engine engine(*model, {.block_size = 4});
  EXPECT_EQ(told(engine, one).cached, 0);
  EXPECT_EQ(told(engine, one).cached, 36);
  // Only the two blocks before the input are the same.
  for (const EngineRequest* other : {&two, &moved, &plain}) {
    const Told first = told(engine, *other);
    EXPECT_EQ(first.cached, 8);
    EXPECT_TRUE(first.says_as(told_alone(*other)));
    EXPECT_FALSE(first.says_as(told_alone(one)));
  }
  EXPECT_EQ(told(engine, two).cached, 36);
  EXPECT_TRUE(told(engine, one).says_as(told_alone(one)));
  // The same rows, told as two inputs, fill the places by another name: no hit, and the same answer.
  EngineRequest halves = one;
  halves.prompt.attached = {input(text(40), {10, 8}), input(text(40), {18, 8})};
  const Told apart = told(engine, halves);
  EXPECT_EQ(apart.cached, 8);
  EXPECT_TRUE(apart.says_as(told_alone(one)));
}

TEST_P(AttachedInputs, KeepTheirBitsInCompany) {
  const int64_t block_bytes = 2 * 2 * 4 * 4 * static_cast<int64_t>(GetParam().name == kLlamaReader.name ? 8 : 16);
  Engine engine(*model, {.block_size = 4,
                         .cache_bytes = 26 * block_bytes,
                         .max_batched_tokens = 9,
                         .max_sequences = 12,
                         .max_model_length = 60});
  std::vector<EngineRequest> requests;
  for (int64_t i = 0; i < 18; ++i) {
    const TokenIds tokens = text(9 + i % 5 * 4, 3 + i % 3);
    EngineRequest one = request(tokens, 12);
    if (i % 3 > 0) one.prompt.attached = {input(tokens, {1 + i % 4, 5}, 1 + 0.5 * static_cast<double>(i % 2))};
    if (i % 4 == 0) one.config.do_sample = true, one.config.seed = static_cast<uint64_t>(i);
    if (i % 8 == 0) one.config.num_return_sequences = 2;
    requests.push_back(one);
  }
  std::map<uint64_t, EngineRequest> numbered;
  for (const EngineRequest& one : requests) numbered[engine.add(one)] = one;
  const auto together = all_told(engine);
  if (is_paged()) {
    EXPECT_GT(engine.statistics().preemptions, 0);
    EXPECT_GT(engine.statistics().prefix_hits, 0);
  }
  for (const auto& [key, answer] : together) {
    Engine lonely(*model, {.prefix_caching = false});
    lonely.add(numbered.at(key.first));
    const auto alone = all_told(lonely);
    EXPECT_EQ(answer.error, "");
    EXPECT_TRUE(answer.says_as(alone.at({1, key.second}))) << key.first;
  }
}

TEST_P(AttachedInputs, AreRefusedBeforeTheQueue) {
  Engine engine(*model);
  const TokenIds tokens = text(8);
  const auto refused = [&](AttachedInput attached) {
    return test::message_of([&] { engine.add(request({tokens, {std::move(attached)}})); });
  };
  AttachedInput one = input(tokens, {2, 3});
  one.places = {{2, 4}};
  EXPECT_NE(refused(one).find("inputs_embeds of an input among the tokens: expected [4, 16]"), std::string::npos);
  one.places = {{6, 3}};
  EXPECT_NE(refused(one).find("of a text of 8 tokens"), std::string::npos);
  one.places = {};
  EXPECT_NE(refused(one).find("needs places"), std::string::npos);
  one.places = {{2, 3}};
  one.tensors = {{"pixel_values", one.tensors.at("inputs_embeds")}};
  EXPECT_NE(refused(one).find("makes nothing of 'pixel_values' among the tokens"), std::string::npos);
  EXPECT_EQ(engine.statistics().waiting, 0);
}

// Two processes as threads, which exchange what they say in turns.
struct ReaderTable {
  std::barrier<> both{2};
  std::string said;
};

class Partner : public Evaluator {
 public:
  Partner(ReaderTable& table, bool leads) : table_(table), leads_(leads) {}
  std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) override {
    std::vector<Tensor> all(outputs.begin(), outputs.end());
    all.insert(all.end(), state.begin(), state.end());
    eval(all);
    for (const Tensor& output : outputs) seen.push_back(output.to_vector<float>());
    return state;
  }
  bool leads() const override { return leads_; }
  std::string from_leader(const std::string& mine) override {
    if (leads_) table_.said = mine;
    table_.both.arrive_and_wait();
    std::string said = table_.said;
    table_.both.arrive_and_wait();
    return said;
  }
  std::vector<std::vector<float>> seen;  // every result, rows of inputs among them

 private:
  ReaderTable& table_;
  bool leads_;
};

TEST_P(AttachedInputs, AreThoseOfAllProcesses) {
  if (!is_paged()) GTEST_SKIP() << "is not computed over several processes";
  const TokenIds tokens = text(21);
  const EngineRequest one = request({tokens, {input(tokens, {5, 9}, 1.5)}});
  ReaderTable meeting;
  Partner first(meeting, true), second(meeting, false);
  std::thread follower([&] {
    const auto copy = Model::from_config(GetParam().config, {.seed = 4});
    follow_engine(*copy, second);
  });
  Told answer;
  {
    const EvaluatorScope scope(&first);
    Engine engine(*model, {.max_batched_tokens = 8});
    answer = told(engine, one);
  }
  follower.join();
  EXPECT_TRUE(answer.says_as(told_alone(one))) << answer.error;
  EXPECT_GE(first.seen.size(), 7u);
  EXPECT_EQ(first.seen, second.seen);
}

INSTANTIATE_TEST_SUITE_P(Families, AttachedInputs, testing::Values(kGpt2Reader, kLlamaReader, kBloomReader),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
