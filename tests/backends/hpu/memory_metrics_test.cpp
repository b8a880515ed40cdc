// SPDX-License-Identifier: Apache-2.0
// What a run takes of a card's own memory is among its metrics.
#include "work/train/loop/memory_metrics.h"

#include <gtest/gtest.h>

#include "backends/hpu/hpu_device.h"
#include "transom/ops.h"

namespace transom {
namespace {

TEST(HpuMemoryMetrics, AreThoseOfTheCard) {
  test::require_hpu();
  if (testing::Test::IsSkipped()) return;
  MemoryMetrics memory(false);
  memory.end("init");
  memory.begin("train");
  constexpr int64_t kElements = int64_t{1} << 20;
  const Tensor kept = Tensor::from(std::vector<float>(kElements, 1), {kElements});
  Tensor let_go = Tensor::from(std::vector<float>(2 * kElements, 1), {2 * kElements});
  let_go = Tensor();
  LogRecord record;
  memory.end("train", &record);
  EXPECT_NEAR(*find_number(record, "train_mem_gpu_alloc_delta"), 4.0 * kElements, 1e5);
  EXPECT_NEAR(*find_number(record, "train_mem_gpu_peaked_delta"), 8.0 * kElements, 1e5);
  EXPECT_TRUE(find_number(record, "before_init_mem_gpu"));
  EXPECT_TRUE(find_number(record, "train_mem_cpu_alloc_delta"));
  EXPECT_EQ(kept.size(), kElements);
}

}  // namespace
}  // namespace transom
