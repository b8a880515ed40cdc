// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace transom {
namespace {

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(75.2), "1:15");
  EXPECT_EQ(duration_text(3661), "1:01:01");
  EXPECT_EQ(duration_text(-1), "?");
}

TEST(Progress, LineFitsTheWidth) {
  const ProgressView view{"train", 25, 100, 0, 10, "step"};
  const ProgressFields fields = {{"loss", "0.51"}, {"lr", "5e-05"}};
  EXPECT_EQ(progress_line(view, fields, 100),
            "train [#######.......................] 25/100 [0:10<0:30, 2.50 step/s] loss=0.51 lr=5e-05");
  EXPECT_EQ(progress_line(view, fields, 60), "train [##........] 25/100 [0:10<0:30, 2.50 step/s] loss=0.51");
  EXPECT_EQ(progress_line(view, fields, 52), "train [###.........] 25/100 [0:10<0:30, 2.50 step/s]");
  EXPECT_EQ(progress_line(view, fields, 30), "train 25/100 [0:10<0:30, 2.50 ");
  for (size_t width = 0; width < 120; ++width) EXPECT_LE(progress_line(view, fields, width).size(), width);
}

TEST(Progress, UnknownTotalsAndResumedRuns) {
  EXPECT_EQ(progress_line({"read", 30, 0, 0, 3, "row"}, {}, 80), "read 30 [0:03, 10.00 row/s]");
  EXPECT_EQ(progress_line({"", 60, 100, 50, 20, "it"}, {}, 40), "[####....] 60/100 [0:20<1:20, 2.00 s/it]");
  EXPECT_EQ(progress_line({"", 0, 4, 0, 0, "it"}, {}, 40), "[.................] 0/4 [0:00<?, ? it/s]");
}

TEST(Progress, BytesAreShownInPowersOfAThousand) {
  EXPECT_EQ(progress_line({"x", 12'345'678, 498'000'000, 0, 10, "B"}, {}, 50),
            "x [.............] 12.3M/498M [0:10<6:33, 1.23MB/s]");
  EXPECT_EQ(progress_line({"", 999, 0, 0, 1, "B"}, {}, 50), "999 [0:01, 999B/s]");
  EXPECT_EQ(progress_line({"", 999'500, 0, 0, 1, "B"}, {}, 50), "1.00M [0:01, 1.00MB/s]");
}

TEST(Progress, FilesStayEmpty) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(file, "train", 10);
    progress.update(10);
    progress.clear();
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

// A pseudo terminal: thousands of updates draw a few lines only.
TEST(Progress, TerminalsAreDrawnTenTimesASecond) {
  const int main_side = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (main_side < 0 || ::grantpt(main_side) != 0 || ::unlockpt(main_side) != 0) GTEST_SKIP() << "no terminals here";
  std::FILE* terminal = std::fopen(::ptsname(main_side), "w");
  if (!terminal) GTEST_SKIP() << "no terminals here";
  winsize size{.ws_row = 24, .ws_col = 50};
  ::ioctl(main_side, TIOCSWINSZ, &size);
  {
    Progress progress(terminal, "train", 5001);
    for (int i = 1; i <= 5000; ++i) progress.update(i);
  }
  std::fclose(terminal);
  std::string drawn;
  char text[4096];
  for (ssize_t count; (count = ::read(main_side, text, sizeof text)) > 0;)
    drawn.append(text, static_cast<size_t>(count));
  EXPECT_LE(std::count(drawn.begin(), drawn.end(), '\r'), 20);
  EXPECT_NE(drawn.find("1/5001"), drawn.npos);
  EXPECT_NE(drawn.find("5000/5001"), drawn.npos);
  ::close(main_side);
}

}  // namespace
}  // namespace transom
