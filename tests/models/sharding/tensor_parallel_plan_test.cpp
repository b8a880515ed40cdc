// SPDX-License-Identifier: Apache-2.0
// Which elements of joined layers each process has.
#include "models/sharding/tensor_parallel_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "models/sharding/model_families.h"
#include "models/sharding/rewrite/part_places.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

struct JoinedPlanCase {
  const char* name;
  const char* config;
  const char* parameter;
  const char* placement;
  // Of two processes, what the first one has of the dimension that is cut: ranges.
  std::vector<Range> first;
  size_t dimension = 0;
};

class JoinedLayers : public testing::TestWithParam<JoinedPlanCase> {};

TEST_P(JoinedLayers, AreCutByWholeHeads) {
  const JoinedPlanCase& test = GetParam();
  set_device("cpu");
  const auto model = Model::from_config(test.config, {.seed = 3});
  const ProcessMesh::Sizes sizes{1, 1, 1, 1, 1, 2};
  bool found = false;
  for (const auto& parameter : model->parameters()) {
    if (parameter->name != test.parameter) continue;
    found = true;
    const Shape& shape = parameter->value.shape();
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < 2; ++rank) {
      const ProcessMesh mesh(sizes, rank, 2);
      const Placement placement = tensor_parallel_placement(mesh, model->config(), *parameter);
      EXPECT_EQ(to_string(placement, shape), test.placement);
      const std::vector<int64_t> places = places_of_part(mesh, placement, shape)[test.dimension];
      EXPECT_EQ(local_shape(mesh, placement, shape)[test.dimension], static_cast<int64_t>(places.size()));
      all.insert(all.end(), places.begin(), places.end());
      if (rank > 0) continue;
      std::vector<int64_t> expected;
      for (const Range& range : test.first)
        for (int64_t i = range.begin; i < range.end; ++i) expected.push_back(i);
      EXPECT_EQ(places, expected);
    }
    std::sort(all.begin(), all.end());
    std::vector<int64_t> whole(static_cast<size_t>(shape[test.dimension]));
    std::iota(whole.begin(), whole.end(), 0);
    EXPECT_EQ(all, whole) << "each element is on one process";
  }
  EXPECT_TRUE(found) << test.parameter;
}

constexpr const char* kBigCodeOfManyKeys = R"({"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"],
  "vocab_size": 53, "n_positions": 32, "n_embd": 24, "n_layer": 1, "n_head": 3, "multi_query": false})";

INSTANTIATE_TEST_SUITE_P(
    Families, JoinedLayers,
    testing::Values(
        JoinedPlanCase{"Gpt2Weight",
                       kGpt2Family.config,
                       "transformer.h.0.attn.c_attn.weight",
                       "tp cuts 1, which joins 24 + 24 + 24",
                       {{0, 16}, {24, 40}, {48, 64}},
                       1},
        JoinedPlanCase{"Gpt2Bias",
                       kGpt2Family.config,
                       "transformer.h.0.attn.c_attn.bias",
                       "tp cuts 0, which joins 24 + 24 + 24",
                       {{0, 16}, {24, 40}, {48, 64}}},
        JoinedPlanCase{"Gpt2Output", kGpt2Family.config, "transformer.h.0.attn.c_proj.weight", "tp cuts 0", {{0, 16}}},
        JoinedPlanCase{"Phi3",
                       kPhi3Family.config,
                       "model.layers.0.self_attn.qkv_proj.weight",
                       "tp cuts 0, which joins 24 + 12 + 12",
                       {{0, 16}, {24, 32}, {36, 44}}},
        JoinedPlanCase{"Phi3Gate",
                       kPhi3Family.config,
                       "model.layers.0.mlp.gate_up_proj.weight",
                       "tp cuts 0, which joins 37 + 37",
                       {{0, 19}, {37, 56}}},
        JoinedPlanCase{"ModernBert",
                       kModernBertFamily.config,
                       "model.layers.0.attn.Wqkv.weight",
                       "tp cuts 0, which joins 24 + 24 + 24",
                       {{0, 16}, {24, 40}, {48, 64}}},
        JoinedPlanCase{"ModernBertGate",
                       kModernBertFamily.config,
                       "model.layers.0.mlp.Wi.weight",
                       "tp cuts 0, which joins 37 + 37",
                       {{0, 19}, {37, 56}}},
        JoinedPlanCase{"GptNeoX",
                       kGptNeoXFamily.config,
                       "gpt_neox.layers.0.attention.query_key_value.weight",
                       "tp cuts 0",
                       {{0, 48}}},
        JoinedPlanCase{"Bloom",
                       kBloomFamily.config,
                       "transformer.h.0.self_attention.query_key_value.bias",
                       "tp cuts 0",
                       {{0, 48}}},
        JoinedPlanCase{"GptBigCode",
                       kGptBigCodeFamily.config,
                       "transformer.h.0.attn.c_attn.weight",
                       "tp cuts 0, which joins 24 + 8 + 8",
                       {{0, 16}, {24, 28}, {32, 36}}},
        JoinedPlanCase{
            "GptBigCodeOfManyKeys", kBigCodeOfManyKeys, "transformer.h.0.attn.c_attn.weight", "tp cuts 0", {{0, 48}}},
        JoinedPlanCase{
            "MPNet", kMPNetFamily.config, "mpnet.encoder.layer.0.attention.attn.o.weight", "tp cuts 1", {{0, 16}}, 1},
        JoinedPlanCase{"DebertaOfPositions",
                       kDebertaFamily.config,
                       "deberta.encoder.layer.0.attention.self.pos_key_proj.weight",
                       "tp cuts 0",
                       {{0, 16}}},
        JoinedPlanCase{"Albert",
                       kAlbertFamily.config,
                       "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.value.weight",
                       "tp cuts 0",
                       {{0, 16}}}),
    [](const auto& info) { return info.param.name; });

// A family with fewer heads than processes keeps its heads together.
TEST(TensorParallelPlan, LeavesTooFewHeadsWhole) {
  set_device("cpu");
  const auto model = Model::from_config(kPhi3Family.config, {.seed = 3});
  const ProcessMesh mesh({1, 1, 1, 1, 1, 4}, 0, 4);
  for (const auto& parameter : model->parameters())
    if (parameter->name.find("self_attn") != std::string::npos) {
      EXPECT_TRUE(tensor_parallel_placement(mesh, model->config(), *parameter).is_replicated()) << parameter->name;
    }
}

// What adapters add to a layer is cut as the layer is.
TEST(TensorParallelPlan, CutsAdaptersAsTheirLayer) {
  set_device("cpu");
  const auto model = Model::from_config(kGpt2Family.config, {.seed = 3});
  const ProcessMesh mesh({1, 1, 1, 1, 1, 2}, 0, 2);
  const std::string layer = "transformer.h.0.attn.";
  const std::map<std::string, std::pair<Shape, std::string>> expected{
      {layer + "c_attn.lora_A.weight", {{4, 24}, "replicated"}},
      {layer + "c_attn.lora_B.weight", {{72, 4}, "tp cuts 0, which joins 24 + 24 + 24"}},
      {layer + "c_proj.lora_A.weight", {{4, 24}, "tp cuts 1"}},
      {layer + "c_proj.lora_B.weight", {{24, 4}, "replicated"}}};
  for (const auto& [name, cut] : expected) {
    Parameter parameter;
    parameter.name = name;
    parameter.value = zeros(cut.first, DType::kFloat32);
    EXPECT_EQ(to_string(tensor_parallel_placement(mesh, model->config(), parameter), cut.first), cut.second) << name;
  }
}

}  // namespace
}  // namespace transom
