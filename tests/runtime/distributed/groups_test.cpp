// SPDX-License-Identifier: Apache-2.0
// Collectives in graphs, over all processes and over groups of them, on both transports: this program runs itself as
// the ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "graph/ops/movement/collectives.h"
#include "support/message.h"
#include "support/own_ranks.h"
#include "support/ranks.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "transom/gradients.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

// ---- the launcher's side

class Groups : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void run(const std::string& test) {
    const auto& [backend, ranks] = GetParam();
    if (!test::has_library(("transom_" + backend + ".so").c_str()) ||
        (backend == "mpi" && std::system("command -v mpirun >/dev/null") != 0))
      GTEST_SKIP() << "built without " << backend;
    EXPECT_EQ(backend == "mpi" ? test::run_over_mpi(test, ranks) : test::run_over_gloo(test, ranks), "");
  }
};

TEST_P(Groups, OfAllExchangeAndHaveGradients) { run("GroupRanks.DISABLED_OfAll"); }
TEST_P(Groups, OfSomeDoNotDisturbEachOther) { run("GroupRanks.DISABLED_OfSome"); }
TEST_P(Groups, RefuseWhatDoesNotFit) {
  if (std::get<1>(GetParam()) > 2) run("GroupRanks.DISABLED_RefuseWhatDoesNotFit");
}
TEST_P(Groups, GiveSumsOneOrder) { run("GroupRanks.DISABLED_HaveOneOrder"); }

INSTANTIATE_TEST_SUITE_P(All, Groups, testing::Combine(testing::Values("gloo", "mpi"), testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + std::to_string(std::get<1>(info.param));
                         });

// ---- the ranks' side

class GroupRanks : public testing::Test {
 protected:
  void SetUp() override {
    const char* backend = std::getenv("TEST_BACKEND");
    if (!backend) GTEST_SKIP() << "not one of several";
    set_device("cpu");
    join_process_group({.backend = backend, .timeout = 60});
    rank_ = process_rank(), ranks_ = process_count();
  }
  void TearDown() override {
    set_mode(Mode::kLazy);
    leave_process_group();
  }
  int64_t rank_ = 0, ranks_ = 1;
};

// Element i of rank r; small numbers, exact in bf16.
float value_of(int64_t r, int64_t i) { return static_cast<float>(r * 16 + i); }

Tensor rows_of(int64_t rank, int64_t rows, DType dtype) {
  Floats values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(value_of(rank, i));
  return cast(Tensor::from(values, {rows, 1}), dtype);
}

Floats floats(const Tensor& x) { return x.to_vector<float>(); }

TEST_F(GroupRanks, DISABLED_OfAll) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second one finds the program
      const int64_t rows = ranks_ * 2;
      Tensor x = rows_of(rank_, rows, dtype);
      x.set_requires_grad();
      const Tensor sum = all_reduce(x, 0), turned = all_to_all(x, ranks_, 1), part = reduce_scatter(x, ranks_, 2),
                   all = all_gather(part * 0.5, ranks_, 3);
      Floats sums, parts, halves;
      for (int64_t i = 0; i < rows; ++i) {
        float total = 0;
        for (int64_t r = 0; r < ranks_; ++r) total += value_of(r, i);
        sums.push_back(total);
        halves.push_back(total / 2);
        if (i / 2 == rank_) parts.push_back(total);
      }
      Floats columns;
      for (int64_t r = 0; r < ranks_; ++r)
        for (int64_t i = 0; i < 2; ++i) columns.push_back(value_of(r, rank_ * 2 + i));
      eval({sum, turned, part, all});
      EXPECT_EQ(floats(sum), sums);
      EXPECT_EQ(floats(turned), columns);
      EXPECT_EQ(floats(part), parts);
      EXPECT_EQ(floats(all), halves);
      // The gradient of what all gather is scattered, and the other way round: rank r's weights are r + 1.
      const Tensor weight = full({rows, 1}, static_cast<double>(rank_ + 1), dtype);
      const Tensor loss = reduce_sum(all_gather(slice(x, 0, 0, 2), ranks_, 0) * weight, {0, 1});
      const Floats dx = floats(gradients(loss, {x})[0]);
      Floats expected(static_cast<size_t>(rows), 0.0F);
      expected[0] = expected[1] = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
      EXPECT_EQ(dx, expected);
      const Tensor scattered =
          reduce_sum(reduce_scatter(x, ranks_, 0) * full({2, 1}, static_cast<double>(rank_ + 1), dtype), {0, 1});
      const Floats dy = floats(gradients(scattered, {x})[0]);
      for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(dy[static_cast<size_t>(i)], static_cast<float>(i / 2 + 1));
    }
}

TEST_F(GroupRanks, DISABLED_OfSome) {
  constexpr int64_t kRows = 12;
  // The even and the odd ranks; of three processes rank 1 is a group of its own.
  Axes same;
  for (int64_t r = rank_ % 2; r < ranks_; r += 2) same.push_back(r);
  const auto many = static_cast<int64_t>(same.size());
  const int64_t place = std::find(same.begin(), same.end(), rank_) - same.begin();
  const auto sum_over = [&](const Axes& ranks, int64_t i) {
    float total = 0;
    for (const int64_t r : ranks) total += value_of(r, i);
    return total;
  };
  Floats sums, rows, columns;
  for (int64_t i = 0; i < kRows; ++i) sums.push_back(sum_over(same, i));
  for (const int64_t r : same)
    for (int64_t i = 0; i < kRows; ++i) {
      rows.push_back(value_of(r, i));
      if (i / (kRows / many) == place) columns.push_back(value_of(r, i));
    }
  for (const Mode mode : {Mode::kLazy, Mode::kGraph, Mode::kEager})
    for (int repeat = 0; repeat < 2; ++repeat) {
      set_mode(mode);
      const Tensor x = rows_of(rank_, kRows, DType::kFloat32);
      const Tensor sum = all_reduce(x, 0, same), all = all_gather(x, many, 1, same),
                   turned = all_to_all(x, many, 2, same), part = reduce_scatter(sum, many, 3, same);
      // Over all ranks, of what the groups made.
      const Tensor whole = all_reduce(sum, 4);
      eval({sum, all, turned, part, whole});
      EXPECT_EQ(floats(sum), sums);
      EXPECT_EQ(floats(all), rows);
      EXPECT_EQ(floats(turned), columns);
      for (int64_t i = 0; i < kRows / many; ++i) {
        const float mine = sums[static_cast<size_t>(place * (kRows / many) + i)];
        EXPECT_EQ(floats(part)[static_cast<size_t>(i)], mine * static_cast<float>(many));
      }
      for (int64_t i = 0; i < kRows; ++i) {
        float total = 0;
        for (int64_t r = 0; r < ranks_; ++r)
          for (int64_t other = r % 2; other < ranks_; other += 2) total += value_of(other, i);
        EXPECT_EQ(floats(whole)[static_cast<size_t>(i)], total);
      }
      // A group that shares a rank with each of the others.
      const Axes ends{0, ranks_ - 1};
      if (rank_ == 0 || rank_ == ranks_ - 1) {
        EXPECT_EQ(floats(all_reduce(x, 0, ends))[5], sum_over(ends, 5));
      }
    }
  set_mode(Mode::kLazy);
}

// A group that this rank is not in, and one of another size than the operation says, are refused by each rank alone.
TEST_F(GroupRanks, DISABLED_RefuseWhatDoesNotFit) {
  const Tensor x = rows_of(rank_, 2, DType::kFloat32);
  const Axes others = rank_ == 0 ? Axes{1, 2} : Axes{0, rank_ == 1 ? 2 : 1};
  std::string message = test::message_of([&] { floats(all_reduce(x, 0, others)); });
  EXPECT_NE(message.find("with this rank"), std::string::npos) << message;
  message = test::message_of([&] { floats(all_gather(x, ranks_ + 1, 0)); });
  EXPECT_NE(message.find("a collective of " + std::to_string(ranks_ + 1) + " processes"), std::string::npos) << message;
  EXPECT_EQ(floats(all_reduce(x * 0.0 + 1.0, 0))[0], static_cast<float>(ranks_));
}

// What is summed in parts and gathered has the bits of what is summed at once, on every rank and at every repeat.
TEST_F(GroupRanks, DISABLED_HaveOneOrder) {
  Floats values(static_cast<size_t>(ranks_) * 1031);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(3 + rank_ * 7 + static_cast<int64_t>(i % 97)) * (rank_ % 2 ? -1.0F : 1.0F);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Tensor x = cast(Tensor::from(values, {static_cast<int64_t>(values.size())}), dtype);
    const auto at_once = all_reduce(x, 0).to_bytes();
    EXPECT_EQ(all_gather(reduce_scatter(x, ranks_, 0), ranks_, 1).to_bytes(), at_once);
    EXPECT_EQ(all_reduce(x, 0).to_bytes(), at_once);
    // As rank 0 has it.
    const Tensor own = Tensor::from_bytes(at_once, x.type());
    const auto all = all_gather(own, ranks_, 0).to_bytes();
    EXPECT_TRUE(std::equal(at_once.begin(), at_once.end(), all.begin()));
  }
}

}  // namespace
}  // namespace transom
