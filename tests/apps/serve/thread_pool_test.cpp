// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/workers/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace transom::serve {
namespace {

// As many long tasks as there are threads wait; the short ones run meanwhile.
TEST(ThreadPool, LongTasksLeaveAThread) {
  ThreadPool pool(3);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<int> running{0}, most{0}, done{0};
  for (int i = 0; i < 6; ++i)
    pool.post(
        [&, ended] {
          most = std::max<int>(most, ++running);
          ended.wait();
          --running, ++done;
        },
        true);
  std::promise<void> last;
  for (int i = 0; i < 100; ++i)
    pool.post([&, i] {
      if (i == 99) last.set_value();
    });
  EXPECT_EQ(last.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_LE(most, 2);
  end.set_value();
  for (int i = 0; i < 1000 && done < 6; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(done, 6);
}

TEST(ThreadPool, OneThreadTakesBothInTurn) {
  ThreadPool pool(1);
  std::promise<void> started, begin, end;
  std::vector<bool> order;
  pool.post([&] {
    started.set_value();
    begin.get_future().wait();
  });
  started.get_future().wait();
  for (int i = 0; i < 4; ++i) {
    pool.post([&] { order.push_back(false); });
    pool.post([&] { order.push_back(true); }, true);
  }
  pool.post([&] { pool.post([&] { end.set_value(); }); });
  begin.set_value();
  ASSERT_EQ(end.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  pool.stop();
  ASSERT_EQ(order.size(), 8u);
  for (size_t i = 1; i < 8; ++i) EXPECT_NE(order[i], order[i - 1]);
  EXPECT_FALSE(pool.post([] {}));
}

}  // namespace
}  // namespace transom::serve
