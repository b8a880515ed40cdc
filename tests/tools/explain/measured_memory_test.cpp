// SPDX-License-Identifier: Apache-2.0
// The memory that a graph's plan tells is what the device takes, within 3 %.
#include "tools/explain/measured_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "transom/device.h"

namespace transom {
namespace {

BenchOptions job(const test::TemporaryFolder& folder, const char* task, int64_t batch) {
  write_file(folder.path() / "config.json",
             R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 2000,
                "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 1024,
                "max_position_embeddings": 64, "type_vocab_size": 2})");
  BenchOptions options;
  options.model = folder.path().string();
  options.task = task;
  options.no_weights = true;
  options.batch_size = batch;
  options.sequence_length = 64;
  return options;
}

TEST(MeasuredMemory, IsWhatThePlanSays) {
  const test::TemporaryFolder folder;
  // Of so small a job the workspace of kernels is a tenth. First, since larger jobs leave larger workspace.
  const MeasuredMemory small = measure_memory(job(folder, "forward", 2));
  EXPECT_NEAR(small.ratio(), 1, 0.03) << measured_memory_table(small);
  const MeasuredMemory forward = measure_memory(job(folder, "forward", 16)),
                       train = measure_memory(job(folder, "train", 16));
  EXPECT_NEAR(forward.ratio(), 1, 0.03) << measured_memory_table(forward);
  EXPECT_NEAR(train.ratio(), 1, 0.03) << measured_memory_table(train);
  EXPECT_GT(forward.measured, int64_t{1} << 20);
  EXPECT_GT(train.inputs, 29 * (forward.inputs + forward.in_place) / 10);  // weights and two moments
  // What was compiled before is not counted a second time, and not told as nothing.
  EXPECT_THROW(measure_memory(job(folder, "train", 16)), Error);
}

}  // namespace
}  // namespace transom
