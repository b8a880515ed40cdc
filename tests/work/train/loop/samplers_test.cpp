// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/samplers.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json/json.h"
#include "transom/training_arguments.h"
#include "work/train/golden.h"

namespace transom {
namespace {

TEST(Samplers, RandomOrderIsReseededEachEpoch) {
  EXPECT_EQ(random_order(10, 42, 0), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(random_order(10, 42, 1), random_order(10, 43, 0));
  EXPECT_EQ(sequential_order(3), (Order{0, 1, 2}));
}

// transformers.trainer_pt_utils.get_length_grouped_indices of the same lengths and generator.
TEST(Samplers, LengthGroupedOrder) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 40; ++i) lengths.push_back(i * 37 % 23 + 1);
  Mt19937 generator(3);
  EXPECT_EQ(length_grouped_order(lengths, 2, generator),
            (Order{18, 21, 1, 37, 32, 25, 2,  20, 33, 10, 26, 31, 39, 24, 14, 9,  4, 35, 12, 38,
                   36, 13, 8, 6,  29, 19, 22, 17, 28, 23, 3,  16, 34, 11, 27, 30, 7, 15, 5,  0}));
  EXPECT_EQ(length_grouped_order(std::span(lengths).first(3), 8, generator), (Order{1, 2, 0}));
}

TEST(Samplers, Batches) {
  EXPECT_EQ(batches_of({5, 6, 7}, 2, false), (Batches{{5, 6}, {7}}));
  EXPECT_EQ(batches_of({5, 6, 7}, 2, true), (Batches{{5, 6}}));
  EXPECT_THROW(batches_of({5}, 0, true), Error);
}

// Made with accelerate.data_loader.BatchSamplerShard.
TEST(Samplers, RanksShareAsWithAccelerate) {
  struct Case {
    int64_t rows, size, ranks;
    bool drop_last, even;
    std::vector<Batches> expected;
  };
  const Case cases[] = {
      {10, 2, 2, false, true, {{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {0, 1}}}},
      {10, 2, 2, false, false, {{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}}}},
      {10, 2, 2, true, true, {{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}}},
      {11, 2, 2, false, true, {{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10, 0}}}},
      {11, 2, 2, false, false, {{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10}}}},
      {13,
       4,
       3,
       false,
       true,
       {{{0, 1, 2, 3}, {12, 0, 1, 2}}, {{4, 5, 6, 7}, {3, 4, 5, 6}}, {{8, 9, 10, 11}, {7, 8, 9, 10}}}},
      {3, 4, 2, false, true, {{{0, 1, 2, 0}}, {{1, 2, 0, 1}}}},
      {3, 4, 2, false, false, {{{0, 1, 2}}, {}}},
      {3, 4, 2, true, true, {{}, {}}},
      {9, 3, 2, false, true, {{{0, 1, 2}, {6, 7, 8}}, {{3, 4, 5}, {0, 1, 2}}}},
      {5, 2, 4, false, true, {{{0, 1}}, {{2, 3}}, {{4, 0}}, {{1, 2}}}},
      {5, 2, 4, false, false, {{{0, 1}}, {{2, 3}}, {{4}}, {}}},
      {12, 3, 4, false, true, {{{0, 1, 2}}, {{3, 4, 5}}, {{6, 7, 8}}, {{9, 10, 11}}}},
      {1, 2, 3, false, true, {{{0, 0}}, {{0, 0}}, {{0, 0}}}},
      {7, 3, 3, false, true, {{{0, 1, 2}}, {{3, 4, 5}}, {{6, 0, 1}}}},
      {7, 3, 3, true, false, {{}, {}, {}}},
  };
  for (const Case& each : cases)
    for (int64_t rank = 0; rank < each.ranks; ++rank)
      EXPECT_EQ(shard(batches_of(sequential_order(each.rows), each.size, each.drop_last), each.size, each.ranks, rank,
                      each.drop_last, each.even),
                each.expected[static_cast<size_t>(rank)])
          << each.rows << " rows, batches of " << each.size << ", rank " << rank << " of " << each.ranks;
}

TEST(Samplers, EveryRankHasAsManyBatches) {
  for (const bool drop : {false, true})
    for (int64_t rows = 24; rows < 40; ++rows)
      for (int64_t rank = 0; rank < 3; ++rank) {
        const TrainSampler sampler(rows, {.batch_size = 4, .drop_last = drop, .ranks = 3, .rank = rank});
        EXPECT_EQ(static_cast<int64_t>(sampler.epoch(0).size()), sampler.batches_per_epoch()) << rows;
      }
  EXPECT_THROW(TrainSampler(0, {}), Error);
  EXPECT_THROW(TrainSampler(3, {.strategy = "group_by_length"}), Error);
}

TEST(Samplers, DurationAndResume) {
  Duration duration = duration_of(25, 4, 1.5, -1);
  EXPECT_EQ(duration.updates_per_epoch, 7);
  EXPECT_EQ(duration.updates, 11);
  EXPECT_EQ(duration.epochs, 2);
  duration = duration_of(25, 4, 3, 15);
  EXPECT_EQ(duration.updates, 15);
  EXPECT_EQ(duration.epochs, 3);
  const Position position = resume_position(9, 25, 4);
  EXPECT_EQ(position.epoch, 1);
  EXPECT_EQ(position.batch, 8);
}

TEST(Samplers, OrderIsThatOfTrainer) {
  const auto cases = golden_trainer_cases("order.json");
  ASSERT_FALSE(cases.empty());
  for (const auto& folder : cases) {
    const Json order = read_json(folder / "order.json");
    const TrainingArguments arguments =
        parse_train_json(dump_json(read_json(folder / "training_args.json")), folder.string()).training;
    const TrainSampler sampler(order["rows"].get<int64_t>(), {.strategy = arguments.train_sampling_strategy,
                                                              .seed = arguments.sampling_seed(),
                                                              .batch_size = arguments.per_device_train_batch_size,
                                                              .accumulation = arguments.gradient_accumulation_steps,
                                                              .drop_last = arguments.dataloader_drop_last});
    int64_t epoch = 0;
    for (const Json& expected : order["epochs"]) {
      Order found;
      for (const Order& batch : sampler.epoch(epoch++)) found.insert(found.end(), batch.begin(), batch.end());
      EXPECT_EQ(found, expected.get<Order>()) << folder;
    }
  }
}

// Trainer on 200 rows of these lengths with batches of 8 and accumulation of 2: the begin of two epochs.
TEST(Samplers, LengthGroupedOrderIsThatOfTrainer) {
  const std::vector<int64_t> lengths = {
      26, 32, 28, 28, 27, 24, 25, 22, 30, 29, 32, 23, 28, 21, 32, 27, 28, 26, 29, 23, 29, 28, 29, 32, 30,
      25, 31, 20, 25, 28, 10, 32, 30, 24, 25, 30, 21, 30, 21, 16, 25, 31, 28, 23, 27, 29, 24, 32, 13, 31,
      28, 30, 9,  30, 32, 31, 32, 23, 22, 24, 27, 19, 28, 32, 30, 26, 24, 21, 16, 23, 23, 22, 21, 32, 26,
      28, 24, 29, 16, 28, 24, 29, 29, 31, 25, 22, 22, 23, 31, 22, 32, 29, 28, 29, 10, 22, 28, 27, 30, 25,
      24, 31, 32, 4,  26, 32, 26, 26, 29, 27, 28, 23, 32, 24, 26, 25, 14, 25, 29, 24, 15, 32, 16, 20, 21,
      28, 30, 29, 22, 26, 32, 27, 27, 29, 28, 24, 25, 29, 16, 26, 30, 25, 27, 25, 17, 12, 30, 32, 27, 22,
      30, 18, 29, 29, 25, 31, 28, 22, 24, 26, 23, 28, 21, 30, 29, 32, 24, 32, 23, 27, 30, 30, 24, 12, 29,
      28, 28, 21, 28, 20, 21, 28, 26, 21, 20, 27, 23, 29, 30, 30, 16, 24, 32, 10, 18, 31, 16, 26, 32, 4};
  const TrainSampler sampler(static_cast<int64_t>(lengths.size()), {.strategy = "group_by_length", .accumulation = 2},
                             lengths);
  EXPECT_EQ(sampler.epoch(0)[0], (Order{165, 90, 47, 167, 14, 121, 1, 155}));
  EXPECT_EQ(sampler.epoch(0)[1], (Order{101, 49, 88, 55, 64, 37, 189, 140}));
  EXPECT_EQ(sampler.epoch(1)[0], (Order{192, 112, 1, 102, 47, 10, 41, 126}));
  // One evaluation at the start and two in the first epoch, each of which draws a seed.
  const std::vector<int64_t> evaluations{1, 3};
  EXPECT_EQ(sampler.epoch(0, evaluations)[0], (Order{112, 23, 14, 1, 26, 101, 155, 126}));
  EXPECT_EQ(sampler.epoch(1, evaluations)[0], (Order{167, 1, 63, 23, 102, 90, 47, 41}));
}

}  // namespace
}  // namespace transom
