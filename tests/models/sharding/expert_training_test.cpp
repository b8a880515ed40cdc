// SPDX-License-Identifier: Apache-2.0
// transom train of models whose experts are spread over processes: the curve of one process with the whole batch.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "models/sharding/random_layouts.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

struct ExpertTraining {
  const char* name;
  int64_t ranks, rows;  // processes, and of them those with rows of their own
  int experts;
  std::vector<std::string> layout;
  bool checkpointing = false;
  const char* family = "{}";  // fields besides those of a Mixtral, or in their place
};

constexpr const char* kQwen3Moe = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
  "moe_intermediate_size": 20, "num_hidden_layers": 3, "mlp_only_layers": [1], "head_dim": 8})";

constexpr const char* kQwen2Moe = R"({"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"],
  "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28, "num_experts": 4})";

class ExpertParallel : public testing::TestWithParam<ExpertTraining> {};

TEST_P(ExpertParallel, HasTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const ExpertTraining& test = GetParam();
  const test::TemporaryFolder folder;
  RandomLayout layout;
  Json config{{"model_type", "mixtral"},
              {"architectures", {"MixtralForCausalLM"}},
              {"vocab_size", 53},
              {"hidden_size", 24},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"intermediate_size", 40},
              {"num_local_experts", test.experts},
              {"num_experts_per_tok", 2},
              {"output_router_logits", !test.checkpointing},  // not offered together
              {"router_aux_loss_coef", 0.05},
              {"max_position_embeddings", 32},
              {"pad_token_id", 0}};
  config.update(parse_json(test.family, "the family"));
  layout.config = dump_json(config);
  layout.task = "text-generation";
  // Rows of several lengths, and few of them: some experts get no token in some steps.
  for (int row = 0; row < 23; ++row) {
    std::vector<int> ids;
    for (int i = 0; i < 2 + row % 7; ++i) ids.push_back(3 + (row * 13 + i * i * 7) % 50);
    layout.rows += fmt::format("{{\"input_ids\": [{}]}}\n", fmt::join(ids, ", "));
  }
  layout.ranks = test.ranks;
  layout.batch = 8 / test.rows;
  layout.whole_batch = 8;
  layout.words = words_of_ten_updates(layout.task);
  if (test.checkpointing) layout.words.insert(layout.words.end(), {"--gradient_checkpointing", "true"});
  layout.layout = test.layout;
  EXPECT_LE(difference_of_curves(layout, folder), 2e-6) << layout.describe();
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ExpertParallel,
    testing::Values(ExpertTraining{"Alone", 2, 2, 4, {"--ep_size", "2"}},
                    ExpertTraining{"UnevenExperts", 2, 2, 3, {"--ep_size", "2"}, true},
                    ExpertTraining{"EachOneOfEight", 4, 4, 8, {"--ep_size", "4"}},
                    ExpertTraining{"SomeLayers", 4, 2, 4, {"--ep_size", "2", "--tp_size", "2"}, false, kQwen3Moe},
                    ExpertTraining{"AndASharedOne", 4, 2, 4, {"--ep_size", "2", "--tp_size", "2"}, false, kQwen2Moe},
                    ExpertTraining{"AndRows", 4, 4, 4, {"--ep_size", "2"}},
                    ExpertTraining{"AndShards", 4, 4, 4, {"--ep_size", "2", "--fsdp", "full_shard"}},
                    ExpertTraining{"AndStates", 4, 4, 4, {"--ep_size", "2", "--zero_stage", "1"}},
                    ExpertTraining{
                        "AndTensor", 4, 2, 4, {"--ep_size", "2", "--tp_size", "2", "--parameter_check_steps", "2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
