// SPDX-License-Identifier: Apache-2.0
// Models of several families over MPI, and on the device under test: the curve of one process with the whole batch.
// Over gloo see language_layouts_test.cpp.
#include <gtest/gtest.h>

#include "models/sharding/device_under_test.h"
#include "models/sharding/model_families.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

struct TransportCase {
  const char* name;
  ModelFamily family;
  int64_t ranks, row_parts;  // processes, and those with rows of their own
  Words words;
};

class TransportLayouts : public testing::TestWithParam<TransportCase> {
 protected:
  void expect_curve_of_one(const std::string& device, const std::string& backend) const {
    const TransportCase& test = GetParam();
    RandomLayout layout = layout_of(test.family, test.ranks, test.row_parts, test.words);
    layout.device = device;
    layout.backend = backend;
    const CurveDifference difference = difference_within(layout, folder_, kRounding);
    EXPECT_LE(difference.found, difference.allowed) << layout.describe();
  }
  test::TemporaryFolder folder_;
};

TEST_P(TransportLayouts, HaveTheCurveOfOneProcessOverMpi) {
  if (!test::has_mpi()) GTEST_SKIP() << "there is no MPI";
  expect_curve_of_one("cpu", "mpi");
}

TEST_P(TransportLayouts, HaveTheCurveOfOneProcessOnDevice) {
  const test::DeviceUnderTest other = test::device_under_test();
  if (!other.is_here(folder_)) GTEST_SKIP() << "TRANSOM_TEST_DEVICE names no eight devices";
  expect_curve_of_one(other.device, other.backend);
}

INSTANTIATE_TEST_SUITE_P(
    All, TransportLayouts,
    testing::Values(
        TransportCase{"LlamaShardsTensorAndStages",
                      kLlamaFamily,
                      8,
                      2,
                      {"--fsdp", "full_shard", "--tp_size", "2", "--pp_size", "2"}},
        TransportCase{
            "LlamaStagesPlacesAndTensor", kLlamaFamily, 8, 1, {"--pp_size", "2", "--cp_size", "2", "--tp_size", "2"}},
        TransportCase{"MixtralStagesExpertsAndTensor",
                      kMixtralFamily,
                      8,
                      2,
                      {"--pp_size", "2", "--ep_size", "2", "--tp_size", "2"}},
        TransportCase{"LlamaShardsAndPlaces", kLlamaFamily, 4, 2, {"--fsdp", "full_shard", "--cp_size", "2"}},
        TransportCase{"BertShardsAndTensor", kBertFamily, 6, 2, {"--fsdp", "full_shard", "--tp_size", "3"}},
        TransportCase{"BertStagesAndRows", kBertFamily, 6, 2, {"--zero_stage", "1", "--pp_size", "3"}},
        TransportCase{"Gpt2PlacesInRing", kGpt2Family, 3, 1, {"--cp_size", "3", "--cp_strategy", "ring"}},
        TransportCase{"Gpt2StatesAndTensor", kGpt2Family, 4, 2, {"--zero_stage", "2", "--tp_size", "2"}},
        TransportCase{"T5ShardsAndTensor", kT5Family, 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"}},
        TransportCase{"T5Stages", kT5Family, 3, 1, {"--pp_size", "3"}},
        TransportCase{"MixtralExpertsAndShards", kMixtralFamily, 4, 4, {"--ep_size", "2", "--fsdp", "full_shard"}},
        TransportCase{"MixtralExpertsAndTensor", kMixtralFamily, 4, 2, {"--ep_size", "2", "--tp_size", "2"}}),
    [](const auto& info) { return info.param.name; });

std::vector<TransportCase> cases_of(std::initializer_list<ModelFamily> families) {
  std::vector<TransportCase> cases;
  for (const ModelFamily& family : families) {
    cases.push_back({"Tensor", family, 2, 1, {"--tp_size", "2"}});
    cases.push_back({"TensorAndRows", family, 4, 2, {"--tp_size", "2"}});
    cases.push_back({"ShardsAndTensor", family, 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"}});
    cases.push_back({"Stretches", family, 2, 1, {"--tp_size", "2", "--sequence_parallel", "true"}});
  }
  return cases;
}
std::string name_of_case(const testing::TestParamInfo<TransportCase>& info) {
  return std::string(info.param.family.name) + info.param.name;
}

// Layers that stand joined in one are cut each by itself.
INSTANTIATE_TEST_SUITE_P(Joined, TransportLayouts,
                         testing::ValuesIn(cases_of({kGpt2Family, kPhi3Family, kModernBertFamily, kGptNeoXFamily,
                                                     kBloomFamily, kGptBigCodeFamily, kAlbertFamily})),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(AttentionByDistance, TransportLayouts,
                         testing::ValuesIn(cases_of({kMPNetFamily, kDebertaFamily})), name_of_case);

}  // namespace
}  // namespace transom
