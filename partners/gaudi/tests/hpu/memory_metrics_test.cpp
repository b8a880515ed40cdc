// SPDX-License-Identifier: Apache-2.0
// What a run takes of a card's own memory is among its metrics.
#include <gtest/gtest.h>

#include "hpu_device.h"
#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

TEST(HpuMemoryMetrics, AreThoseOfTheCard) {
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("Intel Gaudi") == std::string::npos)
    GTEST_SKIP() << "no Gaudi here";
  test::save_model_and_rows(folder, 16);
  const auto metrics = [&](const char* device) {
    const test::Outcome outcome =
        test::Program(
            test::training_words(folder, device, device, 4, {"--max_steps", "2", "--skip_memory_metrics", "false"}),
            folder)
            .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return test::read_json(folder / device / "all_results.json");
  };
  const test::Json card = metrics("hpu"), processor = metrics("cpu");
  // Two moments of AdamW for each weight stay, and what a step computes is there for a while.
  const auto model_bytes = static_cast<double>(std::filesystem::file_size(folder / "model" / "model.safetensors"));
  EXPECT_GT(card.at("train_mem_gpu_alloc_delta").get<double>(), model_bytes);
  EXPECT_GE(card.at("train_mem_gpu_peaked_delta").get<double>(), 0);
  EXPECT_TRUE(card.contains("before_init_mem_gpu"));
  EXPECT_TRUE(card.contains("train_mem_cpu_alloc_delta"));
  EXPECT_FALSE(processor.contains("train_mem_gpu_alloc_delta"));
}

}  // namespace
}  // namespace transom
