// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/memory_metrics.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/memory/resident_memory.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"
#include "transom/trainer.h"

namespace transom {
namespace {

constexpr size_t kMegabyte = 1 << 20;

std::vector<std::string> names_of(const LogRecord& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record) names.push_back(name);
  return names;
}

std::vector<char> touched(size_t bytes) { return std::vector<char>(bytes, 1); }

TEST(MemoryMetrics, TellWhatAStageTookAndHeldForAWhile) {
  MemoryMetrics memory(false);
  memory.end("init");
  memory.begin("train");
  const std::vector<char> kept = touched(64 * kMegabyte);
  touched(128 * kMegabyte);  // given back at once
  LogRecord record;
  memory.end("train", &record);
  EXPECT_EQ(names_of(record),
            (std::vector<std::string>{"init_mem_cpu_alloc_delta", "init_mem_cpu_peaked_delta", "before_init_mem_cpu",
                                      "train_mem_cpu_alloc_delta", "train_mem_cpu_peaked_delta"}));
  EXPECT_GT(*find_number(record, "before_init_mem_cpu"), 1e6);
  EXPECT_NEAR(*find_number(record, "train_mem_cpu_alloc_delta"), 64 * kMegabyte, 8 * kMegabyte);
  EXPECT_NEAR(*find_number(record, "train_mem_cpu_peaked_delta"), 128 * kMegabyte, 8 * kMegabyte);
  // The next stage begins anew, and "init" is told once.
  memory.begin("eval");
  LogRecord next;
  memory.end("eval", &next);
  EXPECT_EQ(names_of(next), (std::vector<std::string>{"eval_mem_cpu_alloc_delta", "eval_mem_cpu_peaked_delta"}));
  EXPECT_LT(*find_number(next, "eval_mem_cpu_alloc_delta"), 8.0 * kMegabyte);
  EXPECT_LT(*find_number(next, "eval_mem_cpu_peaked_delta"), 8.0 * kMegabyte);
  EXPECT_EQ(kept[5], 1);
}

// As an evaluation is part of the training that it interrupts.
TEST(MemoryMetrics, AStageWithinAnotherIsPartOfIt) {
  MemoryMetrics memory(false);
  memory.end("init");
  memory.begin("train");
  memory.begin("eval");
  LogRecord inner, outer;
  memory.end("eval", &inner);
  EXPECT_TRUE(inner.empty());
  memory.end("train", &outer);
  EXPECT_TRUE(find_number(outer, "train_mem_cpu_alloc_delta"));
}

TEST(MemoryMetrics, OfTwoEachHasItsOwnBeginning) {
  MemoryMetrics one(false), other(false);
  one.end("init");
  other.end("init");
  one.begin("train");
  const std::vector<char> first = touched(64 * kMegabyte);
  other.begin("train");
  const std::vector<char> second = touched(32 * kMegabyte);
  LogRecord of_one, of_other;
  one.end("train", &of_one);
  other.end("train", &of_other);
  EXPECT_NEAR(*find_number(of_one, "train_mem_cpu_alloc_delta"), 96 * kMegabyte, 8 * kMegabyte);
  EXPECT_NEAR(*find_number(of_other, "train_mem_cpu_alloc_delta"), 32 * kMegabyte, 8 * kMegabyte);
  EXPECT_EQ(first[7] + second[7], 2);
}

TEST(MemoryMetrics, AreWithTheOtherMetricsWhereTheyAreAskedFor) {
  for (const bool skip : {true, false}) {
    const test::TemporaryFolder folder;
    TrainingArguments arguments;
    arguments.output_dir = folder.path().string();
    arguments.max_steps = 2;
    arguments.save_strategy = "no";
    arguments.eval_strategy = "steps";
    arguments.eval_steps = 1;
    arguments.skip_memory_metrics = skip;
    arguments.resolve();
    Trainer trainer(Model::from_config(kSmallBert, {.seed = 3}), arguments);
    TrainingData data{.rows = 8, .batch = [](const std::vector<int64_t>& rows) {
                        std::vector<Features> features(rows.size());
                        for (size_t i = 0; i < rows.size(); ++i) {
                          features[i].sequences["input_ids"] = {2, 5 + rows[i] % 3, 3};
                          features[i].label = rows[i] % 2;
                        }
                        return collate(features, {});
                      }};
    trainer.set_train_data(data);
    trainer.set_eval_data(data);
    const auto has = [](const Metrics& metrics, const std::string& wanted) {
      for (const auto& [name, value] : metrics)
        if (name == wanted) return true;
      return false;
    };
    const Metrics trained = trainer.train(), evaluated = trainer.evaluate();
    EXPECT_EQ(has(trained, "init_mem_cpu_alloc_delta"), !skip);
    EXPECT_EQ(has(trained, "train_mem_cpu_peaked_delta"), !skip);
    EXPECT_EQ(has(evaluated, "eval_mem_cpu_alloc_delta"), !skip);
    EXPECT_EQ(has(trainer.predict(data).memory, "test_mem_cpu_alloc_delta"), !skip);
    // Those of evaluations within the training are no records of their own.
    size_t told = 0;
    for (const LogRecord& record : trainer.state().log_history)
      told += find_number(record, "eval_mem_cpu_alloc_delta") || find_number(record, "train_mem_cpu_alloc_delta");
    EXPECT_EQ(told, skip ? 0U : 1U);
  }
}

}  // namespace
}  // namespace transom
