// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/threads.h"
#include "support/test_names.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace transom::cpu {

transom_host the_host;  // of these tests: the device's own is in its library

namespace {

class ParallelRanges : public testing::TestWithParam<uint32_t> {
  void SetUp() override {
    the_host.threads = GetParam();
    the_host.parallel = [](size_t count, void* context, void (*body)(void*, size_t)) {
      std::vector<std::thread> threads;
      for (size_t i = 0; i < count; ++i) threads.emplace_back(body, context, i);
      for (std::thread& thread : threads) thread.join();
    };
  }
};

TEST_P(ParallelRanges, DoEachPlaceOnce) {
  for (const int64_t count : {0, 1, 2, 5, 48, 1000, 9999})
    for (const int64_t grain : {0, 1, 7, 500}) {
      std::vector<int> done(static_cast<size_t>(count));
      std::atomic<int64_t> ranges{0};
      parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        ++ranges;
        for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
      });
      EXPECT_EQ(done, std::vector<int>(done.size(), 1)) << count << " " << grain;
      // The last one may be shorter than the others.
      EXPECT_LE(ranges, count / std::max<int64_t>(grain, 1) + 1) << count << " " << grain;
      EXPECT_LE(ranges, 17 * static_cast<int64_t>(GetParam())) << count << " " << grain;
    }
}

TEST_P(ParallelRanges, CarryAnException) {
  EXPECT_THROW(parallel_ranges(1000, 1, [](int64_t, int64_t end) { end == 1000 ? throw std::runtime_error("x") : 0; }),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelRanges, testing::Values(1, 2, 3, 16), test::NameOfCase());

}  // namespace
}  // namespace transom::cpu
