// SPDX-License-Identifier: Apache-2.0
// Drafts of heads that read hidden states: what is written has the bits that it has without.
#include <gtest/gtest.h>

#include <filesystem>

#include "models/drafts/draft_head.h"
#include "models/nn/attention/attention.h"
#include "support/golden.h"
#include "transom/engine.h"
#include "work/generation/engine/drafts/drafted_texts.h"

namespace transom {
namespace {

std::vector<EngineRequest> requests_of_forty_tokens() {
  std::vector<EngineRequest> list;
  const auto add = [&](TokenIds prompt, const char* options) -> EngineRequest& {
    list.push_back({.prompt = std::move(prompt)});
    list.back().config.update(options);
    return list.back();
  };
  TokenIds longer(21);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<int64_t>(7 * i % 12);
  add({3}, R"({"max_new_tokens": 16})");
  add(longer, R"({"max_new_tokens": 14, "eos_token_id": [5, 6]})").logprobs = 1;
  add(longer, R"({"max_new_tokens": 12})").prompt_logprobs = 0;
  add({11, 3}, R"({"max_new_tokens": 18, "do_sample": true, "seed": 7, "top_k": 10})").logprobs = 2;
  add({1, 2}, R"({"max_new_tokens": 12, "do_sample": true, "seed": 9, "num_return_sequences": 2})");
  add({8, 9}, R"({"max_new_tokens": 8, "num_beams": 2})");
  add({5, 6, 7, 5, 6}, R"({"max_new_tokens": 12})").prompt_lookup_num_tokens = 3;
  return list;
}

struct WayOfDrafting {
  const char* name;
  int64_t block_size = 4, batched = 9, sequences = 3;
  bool measured = false;
  const char* dtype = "float32";
};

// The texts of a case's model with its head, beside those without.
void expect_the_same_texts(const std::string& name, const WayOfDrafting& way) {
  const auto folder = test::folder_of_case(name, test::GoldenSet::kLibraries, "drafting");
  const auto of_model = folder / "model", own = folder / "head";
  const auto path = std::filesystem::exists(of_model) ? of_model : folder.parent_path() / "eagle3" / "model";
  const auto model = Model::from_pretrained(path.string());
  const auto& writer = dynamic_cast<const GenerativeModel&>(*model);
  const auto head = std::filesystem::exists(own) ? load_eagle3_head(own.string(), writer, {})
                                                 : load_mtp_head(path.string(), writer, {});
  Engine alone(*model, {.cache_dtype = way.dtype});
  Engine engine(
      *model,
      {.block_size = way.block_size,
       .cache_dtype = way.dtype,
       .max_batched_tokens = way.batched,
       .max_sequences = way.sequences,
       .drafts = {.method = DraftOptions::Method::kHead, .tokens = 3, .head = head.get(), .measured = way.measured}});
  EXPECT_EQ(test::texts_of(engine, requests_of_forty_tokens()), test::texts_of(alone, requests_of_forty_tokens()));
  if (!way.measured) EXPECT_GT(engine.statistics().draft_tokens, 0);
}

class HeadDrafts : public testing::TestWithParam<std::string> {};

TEST_P(HeadDrafts, ChangeNothingThatIsWritten) { expect_the_same_texts(GetParam(), {"of all"}); }

INSTANTIATE_TEST_SUITE_P(Golden, HeadDrafts,
                         testing::ValuesIn(test::golden_cases("case.safetensors", test::GoldenSet::kLibraries,
                                                              "drafting")),
                         test::NameOfCase());

class WaysOfDrafting : public testing::TestWithParam<WayOfDrafting> {};

TEST_P(WaysOfDrafting, ChangeNothingThatIsWritten) { expect_the_same_texts("mtp-beside", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Heads, WaysOfDrafting,
                         testing::Values(WayOfDrafting{"LargeBlocks", 16, 512, 8},
                                         WayOfDrafting{"Measured", 4, 64, 8, true},
                                         WayOfDrafting{"KeysOfFloat16", 4, 9, 3, false, "float16"}),
                         [](const auto& info) { return std::string(info.param.name); });

int64_t successor(int64_t token) { return (5 * token + 1) % 40; }

// Each token follows from the one before.
class Successors : public TokenConstraint {
 public:
  explicit Successors(int64_t last) : last_(last) {}
  void allowed(std::span<uint32_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    const auto next = static_cast<size_t>(successor(last_));
    mask[next / 32] = 1u << (next % 32);
  }
  void accept(int64_t token) override { last_ = token; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Successors>(*this); }

 private:
  int64_t last_;
};

// Knows it, and counts in its states how often it went on from its own.
class KnowsSuccessors : public DraftHead {
 public:
  Predicted operator()(const Tensor& ids, const Tensor&, const Tensor& states, bool first, int64_t scored,
                       ForwardContext& context) const override {
    const int64_t N = ids.dim(1);
    const Tensor own = first ? zeros({1, N, 2}) : states + 1.0;
    const Tensor heads = reshape(own, {1, N, 1, 2});
    const Tensor seen = cached_attention(0, heads, heads, heads, {}, {.scale = 1}, Dropout(0), context);
    std::vector<float> table(40 * 40, 0.0F);
    for (int64_t token = 0; token < 40; ++token) table[static_cast<size_t>(40 * token + successor(token))] = 1;
    const Tensor rows = gather(Tensor::from(table, {40, 40}), reshape(ids, {N}), 0);
    return {slice(rows, 0, N - scored, N), slice(reshape(own + seen * 0.0, {N, 2}), 0, N - scored, N)};
  }
  std::vector<size_t> reads() const override { return {1}; }
  int64_t width() const override { return 2; }
};

TEST(RightHead, IsAlwaysAccepted) {
  const auto model = Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 40, "max_position_embeddings": 96, "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 12, "initializer_range": 0.5})");
  const KnowsSuccessors head;
  Engine engine(*model,
                {.block_size = 64, .drafts = {.method = DraftOptions::Method::kHead, .tokens = 4, .head = &head}});
  EngineRequest request{.prompt = {3, 14, 15}};
  request.config.max_new_tokens = 41;  // the first comes with the prompt, the others by five
  request.constraint = std::make_shared<Successors>(15);
  engine.add(request);
  while (engine.step()) continue;
  EXPECT_EQ(engine.statistics().draft_tokens, 32);
  EXPECT_EQ(engine.statistics().accepted_tokens, 32);
  EXPECT_EQ(engine.statistics().steps, 9);
}

}  // namespace
}  // namespace transom
