// SPDX-License-Identifier: Apache-2.0
// What a terminal shows: lines of the width that is asked for, whatever the run is called and however its curve goes.
#include <gtest/gtest.h>

#include "apps/dashboard/terminal/line_chart.h"
#include "apps/dashboard/terminal/run_screen.h"

namespace transom::dashboard {
namespace {

size_t characters(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

TEST(Fitted, HasTheWidthAndNoControlCharacters) {
  EXPECT_EQ(fitted("abc", 5), "abc  ");
  EXPECT_EQ(fitted("abcdef", 3), "abc");
  EXPECT_EQ(fitted("\xc3\xa9t\xc3\xa9", 2), "\xc3\xa9t");
  EXPECT_EQ(fitted("a\x1b[31mb\n", 8), "a?[31mb?");
  EXPECT_EQ(fitted("\xc2\x9b"
                   "31m",
                   4),
            "?31m");  // the one-character form of ESC [
  EXPECT_EQ(fitted("\xff\xc3", 3), "?? ");
  EXPECT_EQ(fitted("\xe2\x82", 3), "?? ");
}

TEST(LineChart, DrawsALineFromCornerToCorner) {
  Series series("loss");
  for (int step = 0; step <= 40; ++step) series.add(step, step, static_cast<uint64_t>(step) + 1);
  const std::vector<std::string> lines = line_chart(series, {.width = 21, .height = 7, .unicode = false});
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "loss  40             ");
  EXPECT_EQ(lines[6], "          0        40");
  EXPECT_EQ(lines[1].back(), '*');
  EXPECT_EQ(lines[5][10], '*');
  EXPECT_EQ(lines[1][10], ' ');
  EXPECT_EQ(lines[5].back(), ' ');
}

TEST(LineChart, HasItsSizeForAnyCurve) {
  for (const bool unicode : {false, true})
    for (const size_t width : {5u, 20u, 37u, 80u})
      for (const size_t height : {1u, 4u, 5u, 14u})
        for (const int count : {0, 1, 2, 5000}) {
          Series series("a name that is longer than the chart is wide, by far and away");
          for (int step = 0; step < count; ++step)
            series.add(step, step % 7 == 3 ? -1e30 : 1e-30 * step, static_cast<uint64_t>(step) + 1);
          const auto lines = line_chart(series, {.width = width, .height = height, .unicode = unicode});
          ASSERT_EQ(lines.size(), height);
          for (const std::string& line : lines) EXPECT_EQ(characters(line), width) << line;
        }
}

TEST(RunScreen, FitsAndShowsWhatMatters) {
  RunMonitor monitor;
  monitor.update([](RunStatus& status) {
    status.model = "bert-\x1b]0;title\x07";
    status.device = "cpu";
    status.memory.resident = 812'000'000;
  });
  monitor.begin(0, 300);
  for (int step = 1; step <= 120; ++step) {
    monitor.set_step(step, step / 100.0);
    monitor.add("loss", step, 3.0 / step);
    monitor.add("learning_rate", step, 1e-5);
    monitor.say("step " + std::to_string(step));
  }
  monitor.add("eval_loss", 120, 0.5);
  monitor.add("eval_accuracy", 120, 0.75);
  for (const bool color : {false, true})
    for (const size_t width : {10u, 40u, 80u, 160u})
      for (const size_t height : {1u, 3u, 12u, 24u, 40u}) {
        const auto lines =
            run_screen(monitor.view(), {.width = width, .height = height, .unicode = false, .color = color});
        EXPECT_LE(lines.size(), height);
        for (const std::string& line : lines) {
          EXPECT_EQ(line.find('\x07'), line.npos);
          EXPECT_EQ(line.find('\n'), line.npos);
          EXPECT_LE(color ? 0 : line.size(), width) << line;
        }
      }
  std::string all;
  for (const std::string& line :
       run_screen(monitor.view(), {.width = 120, .height = 40, .unicode = false, .color = false}))
    all += line + "\n";
  for (const char* part : {"training: bert-", "step 120 of 300", "40 %", "memory 812 MB", "loss  0.025",
                           "eval_accuracy  0.75", "eval_loss  0.5", "learning_rate", "steps/s"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

}  // namespace
}  // namespace transom::dashboard
