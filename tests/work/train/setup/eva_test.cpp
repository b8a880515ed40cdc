// SPDX-License-Identifier: Apache-2.0
// LoRA that begins with the components of what layers read (Paischer et al., "One initialization to rule them all",
// 2024): what adapters must be, whatever they read.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"

namespace transom {
namespace {

constexpr int64_t kRank = 4;

// The folder of adapters that a run without a learning rate leaves as they began.
void begin_by_eva(const std::filesystem::path& output) {
  const std::filesystem::path folder = test::golden_folder() / "sft";
  const Json arguments{{"task", "sft"},
                       {"model_name_or_path", (folder / "qwen2" / "model").string()},
                       {"train_file", (folder / "rows" / "texts.jsonl").string()},
                       {"output_dir", output.string()},
                       {"use_peft", true},
                       {"lora_r", kRank},
                       {"lora_target_modules", "all-linear"},
                       {"init_lora_weights", "eva"},
                       {"learning_rate", 0},
                       {"max_steps", 1},
                       {"per_device_train_batch_size", 4},
                       {"save_strategy", "no"}};
  const test::KeptLog quiet;
  fine_tune(parse_train_json(dump_json(arguments), "arguments"));
}

TEST(Eva, BeginsWithOrthonormalRowsWhoseRanksAreTheirWholeSum) {
  const test::TemporaryFolder work;
  begin_by_eva(work.path() / "one");
  const SafetensorsFile file = SafetensorsFile::open((work.path() / "one" / "adapter_model.safetensors").string());
  int64_t layers = 0, ranks = 0;
  for (const auto& [name, view] : file.tensors()) {
    const std::vector<float> values = Tensor::from_bytes(view.bytes, {view.dtype, view.shape}).to_vector<float>();
    if (name.find("lora_B") != name.npos) {
      for (const float x : values) ASSERT_EQ(x, 0) << name;
      continue;
    }
    const int64_t rows = view.shape[0], width = view.shape[1];
    ++layers, ranks += rows;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t k = 0; k < width; ++k)
          product += static_cast<double>(values[static_cast<size_t>(i * width + k)]) *
                     static_cast<double>(values[static_cast<size_t>(j * width + k)]);
        EXPECT_NEAR(product, i == j ? 1 : 0, 1e-4) << name << " " << i << " " << j;
      }
  }
  EXPECT_GT(layers, 4);
  EXPECT_EQ(ranks, kRank * layers);
}

TEST(Eva, TwoRunsBeginAlike) {
  const test::TemporaryFolder work;
  for (const char* name : {"one", "two"}) begin_by_eva(work.path() / name);
  EXPECT_EQ(read_json(work.path() / "one" / "adapter_config.json").value("rank_pattern", Json()),
            read_json(work.path() / "two" / "adapter_config.json").value("rank_pattern", Json()));
  const SafetensorsFile one = SafetensorsFile::open((work.path() / "one" / "adapter_model.safetensors").string()),
                        two = SafetensorsFile::open((work.path() / "two" / "adapter_model.safetensors").string());
  ASSERT_EQ(one.tensors().size(), two.tensors().size());
  for (size_t i = 0; i < one.tensors().size(); ++i) {
    const auto& [name, view] = one.tensors()[i];
    const auto& [other_name, other] = two.tensors()[i];
    EXPECT_EQ(name, other_name);
    EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), other.bytes.begin(), other.bytes.end())) << name;
  }
}

}  // namespace
}  // namespace transom
