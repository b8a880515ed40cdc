// SPDX-License-Identifier: Apache-2.0
// What each process of a sharded training has on its device, as the device counts it, beside the formulas of ZeRO
// (Rajbhandari et al., 2020): this program runs itself as the ranks.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json/json.h"
#include "runtime/device/device.h"
#include "support/own_ranks.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr int64_t kLayersOfMemory = 24, kWidth = 128, kInner = 352;
constexpr double kOfALayer = 4.0 * (4 * kWidth * kWidth + 3 * kWidth * kInner + 2 * kWidth);  // bytes, f32

// Of P parameters in f32 with AdamW. `copies`, `parts`: bytes a parameter that each of `ranks` processes has, and that
// they share, while gradients are there; without gradients `held_copies` and `held_parts`. `layers`: that are whole
// beside them for a while.
struct MemoryCase {
  const char* name;
  int ranks, rows;
  const char* arguments;
  double held_copies, held_parts, copies, parts, layers;
};

// ---- the ranks' side

int64_t in_use() { return static_cast<int64_t>(memory_use().in_use); }

TEST(MemoryRanks, DISABLED_TrainAndCompare) {
  const char* given = std::getenv("TEST_MEMORY");
  if (!given) GTEST_SKIP() << "not one of several";
  set_device("cpu");
  join_process_group({.backend = std::getenv("TEST_BACKEND"), .timeout = 60});
  const Json wanted = parse_json(given, "what is expected");
  const auto number = [&](const char* name) { return wanted.at(name).get<double>(); };
  TrainingArguments arguments;
  arguments.fsdp = wanted.value("fsdp", "");
  arguments.zero_stage = wanted.value("zero_stage", int64_t{0});
  arguments.tp_size = wanted.value("tp_size", int64_t{1});
  arguments.pp_size = wanted.value("pp_size", int64_t{1});
  arguments.max_grad_norm = 0.5;
  const bool joins = wanted.value("joins", false);  // the same layers, those of one block joined
  const auto model =
      Model::from_config(dump_json(Json{{"model_type", joins ? "phi3" : "llama"},
                                        {"architectures", {joins ? "Phi3ForCausalLM" : "LlamaForCausalLM"}},
                                        {"vocab_size", 160},
                                        {"hidden_size", kWidth},
                                        {"num_hidden_layers", kLayersOfMemory},
                                        {"num_attention_heads", 4},
                                        {"intermediate_size", kInner},
                                        {"max_position_embeddings", 32},
                                        {"tie_word_embeddings", false},
                                        {"pad_token_id", 0}}),
                         {.task = "text-generation", .seed = 3});
  double parameters = 0;
  for (const auto& parameter : model->parameters()) {
    parameter->value.set_requires_grad();
    parameters += static_cast<double>(parameter->value.size());
  }
  TrainStep step(*model, arguments);
  const std::shared_ptr<Device> device = default_device();
  const double whole = 4 * parameters, ranks = number("ranks");
  EXPECT_NEAR(static_cast<double>(in_use()), wanted.at("held_copies") == 0.0 ? whole / ranks : whole, whole / 100)
      << "as it is loaded";
  for (int update = 0; update < 3; ++update) {
    const auto rows = static_cast<int64_t>(number("rows"));
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < rows * 2; ++i) ids.push_back(1 + (i * 7 + update) % 150);
    NamedTensors inputs;
    inputs.set("input_ids", Tensor::from(ids, {rows, 2}));
    inputs.set("labels", Tensor::from(ids, {rows, 2}));
    device->synchronize();
    transom_error error{};
    device->expect_ok(device->table().memory_reset_peak(device->handle(), &error), error);
    step({inputs}, 0.001, update).loss.item<float>();
    device->synchronize();
  }
  const double held = (number("held_copies") + number("held_parts") / ranks) * parameters,
               most = (number("copies") + number("parts") / ranks) * parameters + number("layers") * kOfALayer,
               peak = static_cast<double>(memory_use().peak);
  std::printf("MEASURED %4.1f MB held (formula %4.1f), %4.1f MB at most (formula %4.1f)\n",
              static_cast<double>(in_use()) * 1e-6, held * 1e-6, peak * 1e-6, most * 1e-6);
  EXPECT_NEAR(static_cast<double>(in_use()), held, held / 20) << "between updates";
  EXPECT_NEAR(peak, most, most / 20) << "in an update";
  leave_process_group();
  if (std::getenv("TRANSOM_MEMORY_TABLE")) FAIL() << "so that it is shown";
}

// ---- the launcher's side

class ShardedMemory : public testing::TestWithParam<MemoryCase> {};

// TRANSOM_MEMORY_TABLE=1 shows the numbers.
TEST_P(ShardedMemory, IsThatOfTheFormulas) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const MemoryCase& test = GetParam();
  Json wanted = parse_json(test.arguments, "arguments");
  wanted.update(Json{{"ranks", test.ranks},
                     {"rows", test.rows},
                     {"held_copies", test.held_copies},
                     {"held_parts", test.held_parts},
                     {"copies", test.copies},
                     {"parts", test.parts},
                     {"layers", test.layers}});
  const std::string said = test::run_over_gloo("MemoryRanks.DISABLED_TrainAndCompare", test.ranks,
                                               "TEST_MEMORY='" + dump_json(wanted) + "'");
  if (!std::getenv("TRANSOM_MEMORY_TABLE")) {
    EXPECT_EQ(said, "");
    return;
  }
  for (size_t at = said.find("MEASURED"); at != said.npos; at = said.find("MEASURED", at + 1))
    std::printf("%s: %s\n", test.name, said.substr(at + 9, said.find('\n', at) - at - 9).c_str());
}

// Of sharded parameters two layers are whole at a time, and the gradients of one.
INSTANTIATE_TEST_SUITE_P(
    All, ShardedMemory,
    testing::Values(MemoryCase{"ShardsOfTwo", 2, 2, R"({"fsdp": "full_shard"})", 0, 12, 0, 16, 3},
                    MemoryCase{"ShardsOfFour", 4, 4, R"({"fsdp": "full_shard"})", 0, 12, 0, 16, 3},
                    MemoryCase{"ShardsOfEight", 8, 8, R"({"fsdp": "full_shard"})", 0, 12, 0, 16, 3},
                    MemoryCase{"Zero1", 2, 2, R"({"zero_stage": 1})", 4, 8, 4, 12, 2},
                    MemoryCase{"Zero2", 4, 4, R"({"zero_stage": 2})", 4, 8, 4, 12, 2},
                    MemoryCase{"Tensor", 2, 1, R"({"tp_size": 2})", 0, 12, 0, 16, 0},
                    MemoryCase{"TensorOfJoined", 2, 1, R"({"tp_size": 2, "joins": true})", 0, 12, 0, 16, 0},
                    MemoryCase{"Stages", 2, 1, R"({"pp_size": 2})", 0, 12, 0, 16, 0},
                    MemoryCase{"ShardsAndTensor", 4, 2, R"({"fsdp": "full_shard", "tp_size": 2})", 0, 12, 0, 16, 1.5},
                    MemoryCase{"ShardsAndStages", 4, 2, R"({"fsdp": "full_shard", "pp_size": 2})", 0, 12, 0, 16, 3}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
