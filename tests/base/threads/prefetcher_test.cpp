// SPDX-License-Identifier: Apache-2.0
#include "base/threads/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

namespace transom {
namespace {

// Whether `condition` holds within ten seconds.
template <typename Condition>
bool comes(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(Prefetcher, GivesAllInTheirOrder) {
  for (const int64_t count : {0, 1, 2, 100}) {
    Prefetcher<std::string> values(count, [](int64_t i) { return std::to_string(i); });
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(values.left(), count - i);
      EXPECT_EQ(values.next(), std::to_string(i));
    }
    EXPECT_EQ(values.left(), 0);
  }
}

TEST(Prefetcher, MakesAsManyAheadAsItIsTold) {
  if (thread_count() == 1) GTEST_SKIP() << "one thread makes nothing ahead";
  std::atomic<int64_t> made = 0;
  Prefetcher<int64_t> values(
      10, [&](int64_t i) { return ++made, i; }, 3);
  EXPECT_TRUE(comes([&] { return made == 3; }));
  values.next();
  EXPECT_TRUE(comes([&] { return made == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 4);
}

TEST(Prefetcher, ThrowsInItsPlace) {
  std::atomic<int64_t> last = -1;
  Prefetcher<int64_t> values(
      10,
      [&](int64_t i) {
        last = i;
        if (i == 2) throw std::runtime_error("the third");
        return i;
      },
      5);
  EXPECT_EQ(values.next(), 0);
  EXPECT_EQ(values.next(), 1);
  EXPECT_THROW(values.next(), std::runtime_error);
  EXPECT_EQ(last, 2);
}

TEST(Prefetcher, EndsWithValuesLeft) {
  std::atomic<int64_t> made = 0;
  {
    Prefetcher<int64_t> values(1000, [&](int64_t i) { return ++made, i; });
    values.next();
  }
  const int64_t until_then = made;
  EXPECT_LT(until_then, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(made, until_then);
}

}  // namespace
}  // namespace transom
