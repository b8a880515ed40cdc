// SPDX-License-Identifier: Apache-2.0
#include "base/threads/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace transom {
namespace {

TEST(Threads, DoEachPieceOnce) {
  std::vector<std::atomic<int>> done(1000);
  parallel_for(done.size(), [&](size_t i) { ++done[i]; });
  for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
}

TEST(Threads, ThrowWhatABodyThrows) {
  EXPECT_THROW(parallel_for(100,
                            [](size_t i) {
                              if (i == 42) throw std::runtime_error("42");
                            }),
               std::runtime_error);
}

TEST(Threads, RunSeriallyInsideABody) {
  parallel_for(4, [](size_t) {
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(4, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), here); });
  });
}

// Cores that each thread of the pool may use. The pool takes the setting when it starts.
std::map<std::thread::id, int> cores_of_threads() {
  std::map<std::thread::id, int> cores;
  std::mutex mutex;
  for (int round = 0; round < 1000 && cores.size() < thread_count(); ++round)
    parallel_for(4 * thread_count(), [&](size_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that the workers get something
      cpu_set_t set;
      CPU_ZERO(&set);
      sched_getaffinity(0, sizeof set, &set);
      std::lock_guard lock(mutex);
      cores[std::this_thread::get_id()] = CPU_COUNT(&set);
    });
  return cores;
}

TEST(Threads, StayOnTheirCoresIfTold) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  if (thread_count() < 2 || thread_count() != static_cast<size_t>(CPU_COUNT(&set)))
    GTEST_SKIP() << "needs one thread for each of several cores";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process whose pool has not started
  EXPECT_EXIT(
      {
        setenv("TRANSOM_PIN_THREADS", "1", 1);
        size_t pinned = 0;
        for (const auto& [thread, cores] : cores_of_threads()) pinned += cores == 1;
        std::exit(pinned == thread_count() - 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Threads, RefuseANumberThatIsNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not counted yet
  for (const char* text : {"-3", "0", "two", "4 cores", "99999999999999999999999"})
    EXPECT_EXIT(
        {
          setenv("TRANSOM_NUM_THREADS", text, 1);
          try {
            std::exit(static_cast<int>(thread_count() % 2));
          } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
            std::exit(7);
          }
        },
        testing::ExitedWithCode(7), "TRANSOM_NUM_THREADS: expected a number of threads above 0, found .");
}

}  // namespace
}  // namespace transom
