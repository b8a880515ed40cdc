// SPDX-License-Identifier: Apache-2.0
// The memory that a graph's plan tells is what the device takes, within 3 %.
#include "explain/measured_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "support/temporary_folder.h"
#include "transom/device.h"

namespace transom {
namespace {

BenchOptions job(const test::TemporaryFolder& folder, const char* task) {
  write_file(folder.path() / "config.json",
             R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 1000,
                "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512,
                "max_position_embeddings": 64, "type_vocab_size": 2})");
  BenchOptions options;
  options.model = folder.path().string();
  options.task = task;
  options.no_weights = true;
  options.batch_size = 4;
  options.sequence_length = 32;
  return options;
}

TEST(MeasuredMemory, IsWhatThePlanSays) {
  const test::TemporaryFolder folder;
  for (const char* task : {"forward", "train"}) {
    const MeasuredMemory memory = measure_memory(job(folder, task));
    EXPECT_NEAR(memory.ratio(), 1, 0.03) << task << "\n" << measured_memory_table(memory);
    EXPECT_GT(memory.measured, int64_t{1} << 20) << task;
  }
}

TEST(MeasuredMemory, TrainingHoldsTheStatesOfTheOptimizer) {
  const test::TemporaryFolder folder;
  const MeasuredMemory forward = measure_memory(job(folder, "forward")), train = measure_memory(job(folder, "train"));
  EXPECT_GT(train.inputs, 29 * forward.inputs / 10);  // weights and two moments
}

}  // namespace
}  // namespace transom
