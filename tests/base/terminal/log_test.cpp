// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace transom {
namespace {

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_sink({}); }
};

TEST_F(Log, GoesToTheSinkWithItsLevel) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  set_log_sink([&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
  log(LogLevel::kWarning, "a");
  log(LogLevel::kDebug, "b");
  EXPECT_EQ(seen, (std::vector<std::pair<LogLevel, std::string>>{{LogLevel::kWarning, "a"}, {LogLevel::kDebug, "b"}}));
}

TEST_F(Log, IsDroppedWithoutASink) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  log(LogLevel::kWarning, "nobody listens");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(Log, SinksAreCalledOneAtATime) {
  int inside = 0, calls = 0, overlaps = 0;
  set_log_sink([&](LogLevel, std::string_view) {
    overlaps += inside++;
    ++calls;
    std::this_thread::yield();
    --inside;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 100; ++k) log(LogLevel::kInfo, "x");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 400);
  EXPECT_EQ(overlaps, 0);
}

TEST_F(Log, AnExceptionOfTheSinkIsNoFailureOfTheLibrary) {
  set_log_sink([](LogLevel, std::string_view) { throw std::runtime_error("a full disk"); });
  EXPECT_NO_THROW(log(LogLevel::kInfo, "x"));
}

}  // namespace
}  // namespace transom
