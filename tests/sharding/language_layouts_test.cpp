// SPDX-License-Identifier: Apache-2.0
// Language models of several families on nine to sixteen processes, in products of two and three ways to spread them:
// the curve of one process with the whole batch. Vocabularies are prime, heads odd or few, weights tied or not.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "sharding/random_layouts.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

// `rounding`: of T5 Adam makes full steps of gradients that are little but rounding; with SGD the curves are 4e-7
// apart.
struct Family {
  const char* name;
  const char* task;
  const char* config;
  double rounding = 2e-6;
};

constexpr Family kLlamaOfLayouts{"Llama", "text-generation",
                                 R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
  "intermediate_size": 37, "max_position_embeddings": 32, "tie_word_embeddings": false, "pad_token_id": 0})"};
constexpr Family kGpt2OfLayouts{"Gpt2", "text-generation",
                                R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "vocab_size": 53, "n_positions": 32, "n_embd": 24, "n_layer": 4, "n_head": 3, "resid_pdrop": 0, "embd_pdrop": 0,
  "attn_pdrop": 0, "pad_token_id": 0, "eos_token_id": 1})"};
constexpr Family kT5OfLayouts{"T5", "translation",
                              R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
  "vocab_size": 53, "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 3,
  "dropout_rate": 0, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": true, "pad_token_id": 0, "eos_token_id": 1,
  "decoder_start_token_id": 0})",
                              1e-5};
constexpr Family kMixtralOfLayouts{"Mixtral", "text-generation", R"({"model_type": "mixtral",
  "architectures": ["MixtralForCausalLM"], "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 3,
  "num_attention_heads": 3, "num_key_value_heads": 3, "intermediate_size": 40, "num_local_experts": 4,
  "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.05, "max_position_embeddings": 32,
  "pad_token_id": 0})"};

struct LanguageCase {
  const char* name;
  Family family;
  int64_t ranks, row_parts;  // processes, and those with rows of their own
  Words words;
};

class LanguageLayouts : public testing::TestWithParam<LanguageCase> {};

TEST_P(LanguageLayouts, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const LanguageCase& test = GetParam();
  const test::TemporaryFolder folder;
  RandomLayout layout;
  layout.config = test.family.config;
  layout.task = test.family.task;
  // Rows of several lengths, the last batch of an epoch uneven.
  const auto ids = [](int row, int count) {
    std::vector<int> result;
    for (int i = 0; i < count; ++i) result.push_back(3 + (row * 13 + i * i * 7) % 50);
    return fmt::format("{}", fmt::join(result, ", "));
  };
  for (int row = 0; row < 31; ++row) {
    layout.rows += fmt::format("{{\"input_ids\": [{}]", ids(row, 4 + row % 7));
    if (layout.task == "translation") layout.rows += fmt::format(", \"labels\": [{}]", ids(row + 40, 2 + row % 5));
    layout.rows += "}\n";
  }
  layout.ranks = test.ranks;
  layout.whole_batch = 12;
  layout.batch = layout.whole_batch / test.row_parts;
  layout.words = words_of_ten_updates(layout.task);
  layout.layout = test.words;
  EXPECT_LE(difference_of_curves(layout, folder), test.family.rounding) << layout.describe();
}

INSTANTIATE_TEST_SUITE_P(
    Llama, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kLlamaOfLayouts, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"OfTwelve", kLlamaOfLayouts, 12, 3, {"--fsdp", "full_shard", "--pp_size", "2", "--tp_size", "2"}},
        LanguageCase{"OfSixteen", kLlamaOfLayouts, 16, 4, {"--zero_stage", "2", "--cp_size", "2", "--tp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Gpt2, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kGpt2OfLayouts, 9, 3, {"--cp_size", "3", "--fsdp", "full_shard"}},
        LanguageCase{"OfTwelve", kGpt2OfLayouts, 12, 2, {"--zero_stage", "1", "--pp_size", "2", "--tp_size", "3"}},
        LanguageCase{"OfSixteen", kGpt2OfLayouts, 16, 4, {"--fsdp", "full_shard", "--pp_size", "2", "--cp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    T5, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kT5OfLayouts, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"OfTwelve", kT5OfLayouts, 12, 2, {"--fsdp", "full_shard", "--pp_size", "2", "--tp_size", "3"}},
        LanguageCase{"OfSixteen", kT5OfLayouts, 16, 4, {"--zero_stage", "1", "--cp_size", "2", "--tp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Mixtral, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kMixtralOfLayouts, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{
            "OfTwelve", kMixtralOfLayouts, 12, 6, {"--fsdp", "full_shard", "--ep_size", "2", "--tp_size", "2"}},
        LanguageCase{"OfSixteen", kMixtralOfLayouts, 16, 4, {"--zero_stage", "2", "--ep_size", "2", "--tp_size", "4"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
