// SPDX-License-Identifier: Apache-2.0
// Models of several towers, of sounds, pictures and texts, whose training is spread over processes: the curve of one
// process with the whole batch. This program runs itself as the ranks.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "base/json/json.h"
#include "support/own_ranks.h"
#include "transom/config.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr int kTowerUpdates = 10;
constexpr int64_t kTowerBatch = 6, kTowerPlaces = 5;

struct TowerModel {
  const char* name;
  const char* config;
};
constexpr TowerModel kWhisper{"Whisper", R"({"model_type": "whisper",
  "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 53, "num_mel_bins": 8, "d_model": 24,
  "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3, "decoder_attention_heads": 3,
  "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_source_positions": 10, "max_target_positions": 16,
  "dropout": 0, "attention_dropout": 0, "activation_dropout": 0, "pad_token_id": 0, "bos_token_id": 1,
  "eos_token_id": 2, "decoder_start_token_id": 3})"};
constexpr TowerModel kClip{"Clip", R"({"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 10,
  "text_config": {"vocab_size": 53, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2,
    "num_attention_heads": 3, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 52, "pad_token_id": 1},
  "vision_config": {"hidden_size": 20, "intermediate_size": 33, "num_hidden_layers": 2, "num_attention_heads": 5,
    "image_size": 8, "patch_size": 4}})"};

struct TowerCase {
  TowerModel model;
  const char* layout;
  int ranks;
  const char* arguments;
};

// ---- the ranks' side

Tensor tower_waves(const Shape& shape, int update) {
  std::vector<float> values;
  for (int64_t i = 0; i < elements(shape); ++i)
    values.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 101) + update)));
  return Tensor::from(values, shape);
}

NamedTensors tower_inputs(const std::string& model, int update) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kTowerBatch * kTowerPlaces; ++i) ids.push_back(4 + (i * i * 7 + update) % 48);
  const Tensor tokens = Tensor::from(ids, {kTowerBatch, kTowerPlaces});
  NamedTensors inputs;
  if (model == "whisper") {
    inputs.set("input_features", tower_waves({kTowerBatch, 8, 20}, update));
    inputs.set("labels", tokens);
  } else {
    inputs.set("input_ids", tokens);
    inputs.set("pixel_values", tower_waves({kTowerBatch, 3, 8, 8}, update));
  }
  return inputs;
}

std::vector<std::array<double, 2>> tower_curve(const std::string& config, const TrainingArguments& arguments) {
  const auto model = Model::from_config(config, {.seed = 3});
  for (const auto& parameter : model->parameters()) parameter->value.set_requires_grad();
  const std::string type = model->config().get_string("model_type");
  TrainStep step(*model, arguments, type == "whisper");
  EXPECT_EQ(step.sharding() != nullptr, arguments.tp_size > 1 || !arguments.fsdp.empty());
  std::vector<std::array<double, 2>> curve;
  for (int update = 0; update < kTowerUpdates; ++update) {
    const TrainStep::Result result = step({tower_inputs(type, update)}, 0.002, update);
    curve.push_back({result.loss.item<float>(), result.gradient_norm.item<float>()});
  }
  return curve;
}

TEST(TowerRanks, DISABLED_HaveTheCurveOfOneProcess) {
  const char* given = std::getenv("TEST_TOWERS");
  if (!given) GTEST_SKIP() << "not one of several";
  set_device("cpu");
  const Json wanted = parse_json(given, "what is to be trained");
  const std::string config = dump_json(wanted.at("config"));
  TrainingArguments arguments;
  arguments.max_grad_norm = 0.5;
  const auto one = tower_curve(config, arguments);
  join_process_group({.backend = std::getenv("TEST_BACKEND"), .timeout = 60});
  arguments.fsdp = wanted.value("fsdp", "");
  arguments.tp_size = wanted.value("tp_size", int64_t{1});
  arguments.sequence_parallel = wanted.value("sequence_parallel", false);
  const auto all = tower_curve(config, arguments);
  for (size_t i = 0; i < one.size(); ++i)
    for (size_t k = 0; k < 2; ++k)
      EXPECT_NEAR(all[i][k], one[i][k], 2e-6 * std::abs(one[i][k])) << (k ? "norm" : "loss") << " of update " << i;
  EXPECT_NE(one[0][0], one.back()[0]);
  leave_process_group();
}

// ---- the launcher's side

class ShardedTowers : public testing::TestWithParam<TowerCase> {
 protected:
  void SetUp() override {
    Json wanted = parse_json(GetParam().arguments, "arguments");
    wanted["config"] = parse_json(GetParam().model.config, "a model");
    ::setenv("TEST_TOWERS", dump_json(wanted).c_str(), 1);
  }
  void TearDown() override { ::unsetenv("TEST_TOWERS"); }
  static constexpr const char* kRanks = "TowerRanks.DISABLED_HaveTheCurveOfOneProcess";
};

TEST_P(ShardedTowers, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  EXPECT_EQ(test::run_over_gloo(kRanks, GetParam().ranks), "");
}

TEST_P(ShardedTowers, HaveTheCurveOfOneProcessOverMpi) {
  if (!test::has_mpi()) GTEST_SKIP() << "there is no MPI";
  EXPECT_EQ(test::run_over_mpi(kRanks, GetParam().ranks), "");
}

std::vector<TowerCase> towers() {
  std::vector<TowerCase> cases;
  for (const TowerModel& model : {kWhisper, kClip}) {
    cases.push_back({model, "Shards", 2, R"({"fsdp": "full_shard"})"});
    cases.push_back({model, "Tensor", 2, R"({"tp_size": 2})"});
    cases.push_back({model, "ShardsAndTensor", 4, R"({"fsdp": "full_shard", "tp_size": 2})"});
    cases.push_back({model, "Stretches", 2, R"({"tp_size": 2, "sequence_parallel": true})"});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, ShardedTowers, testing::ValuesIn(towers()),
                         [](const auto& info) { return std::string(info.param.model.name) + info.param.layout; });

}  // namespace
}  // namespace transom
