// SPDX-License-Identifier: Apache-2.0
// Language models of several families on nine to sixteen processes, in products of two and three ways to spread them:
// the curve of one process with the whole batch.
#include <gtest/gtest.h>

#include "models/sharding/model_families.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

struct LanguageCase {
  const char* name;
  ModelFamily family;
  int64_t ranks, row_parts;  // processes, and those with rows of their own
  Words words;
};

class LanguageLayouts : public testing::TestWithParam<LanguageCase> {};

TEST_P(LanguageLayouts, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const LanguageCase& test = GetParam();
  const test::TemporaryFolder folder;
  const RandomLayout layout = layout_of(test.family, test.ranks, test.row_parts, test.words);
  const CurveDifference difference = difference_within(layout, folder, kRounding);
  EXPECT_LE(difference.found, difference.allowed) << layout.describe();
}

// What adapters add to joined layers is cut as these are.
TEST(AdaptersOfJoinedLayers, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  for (const auto& [family, modules] : {std::pair(kGpt2Family, Words{"c_attn", "c_proj"}),
                                        std::pair(kPhi3Family, Words{"qkv_proj", "o_proj", "gate_up_proj"})}) {
    const test::TemporaryFolder folder;
    RandomLayout layout = layout_of(family, 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"});
    layout.words.insert(layout.words.end(), {"--use_peft", "--lora_target_modules"});
    layout.words.insert(layout.words.end(), modules.begin(), modules.end());
    const CurveDifference difference = difference_within(layout, folder, kRounding);
    EXPECT_LE(difference.found, difference.allowed) << layout.describe();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Llama, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kLlamaFamily, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"OfTwelve", kLlamaFamily, 12, 3, {"--fsdp", "full_shard", "--pp_size", "2", "--tp_size", "2"}},
        LanguageCase{
            "StagesAndPlaces", kLlamaFamily, 8, 2, {"--fsdp", "full_shard", "--pp_size", "2", "--cp_size", "2"}},
        LanguageCase{"OfSixteen", kLlamaFamily, 16, 4, {"--zero_stage", "2", "--cp_size", "2", "--tp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Gpt2, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kGpt2Family, 9, 3, {"--cp_size", "3", "--fsdp", "full_shard"}},
        LanguageCase{"OfTwelve", kGpt2Family, 12, 2, {"--zero_stage", "1", "--pp_size", "2", "--tp_size", "3"}},
        LanguageCase{"OfTwelveWithEpsilon",
                     kGpt2OfEpsilonFamily,
                     12,
                     2,
                     {"--zero_stage", "1", "--pp_size", "2", "--tp_size", "3"}},
        LanguageCase{"OfSixteen", kGpt2Family, 16, 4, {"--fsdp", "full_shard", "--pp_size", "2", "--cp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    T5, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kT5Family, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"OfNineWithEpsilon", kT5OfEpsilonFamily, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"OfTwelve", kT5Family, 12, 2, {"--fsdp", "full_shard", "--pp_size", "2", "--tp_size", "3"}},
        LanguageCase{"OfSixteen", kT5Family, 16, 4, {"--zero_stage", "1", "--cp_size", "2", "--tp_size", "2"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Mixtral, LanguageLayouts,
    testing::Values(
        LanguageCase{"OfNine", kMixtralFamily, 9, 3, {"--fsdp", "full_shard", "--tp_size", "3"}},
        LanguageCase{"Stages", kMixtralFamily, 12, 2, {"--pp_size", "3", "--ep_size", "2", "--tp_size", "2"}},
        LanguageCase{"OfTwelve", kMixtralFamily, 12, 6, {"--fsdp", "full_shard", "--ep_size", "2", "--tp_size", "2"}},
        LanguageCase{"OfSixteen", kMixtralFamily, 16, 4, {"--zero_stage", "2", "--ep_size", "2", "--tp_size", "4"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
