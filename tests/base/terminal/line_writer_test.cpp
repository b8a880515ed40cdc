// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/line_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace transom {
namespace {

std::string read_to_end(int file) {
  std::string text;
  char bytes[65536];
  for (ssize_t count = 0; (count = ::read(file, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(count));
  return text;
}

TEST(LineWriter, WritesAllLinesInOrder) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  {
    LineWriter writer(ends[1]);
    for (int i = 0; i < 100; ++i) writer.write("line " + std::to_string(i));
  }
  ::close(ends[1]);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(read_to_end(ends[0]), expected);
  ::close(ends[0]);
}

// How many lines a text tells to be dropped, in one message or in several.
int dropped_lines(const std::string& text) {
  constexpr std::string_view kTold = " lines of the log were dropped";
  int count = 0;
  for (size_t told = text.find(kTold); told != text.npos; told = text.find(kTold, told + 1)) {
    const size_t begin = text.rfind(' ', told - 1) + 1;
    count += std::stoi(text.substr(begin, told - begin));
  }
  return count;
}

// Nobody reads: the pipe takes 64 KiB, the writer as much as it may hold, and the rest is dropped and told later.
TEST(LineWriter, NeverWaitsForAReader) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::string line(1000, 'x');
  std::string text;
  {
    LineWriter writer(ends[1], 20'000);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 5000; ++i) writer.write(line);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    char bytes[65536];
    // The reader comes at last. A few lines may have been dropped, and are told, before the pipe was full.
    for (int i = 0; i < 200 && dropped_lines(text) <= 4000; ++i) {
      writer.write("later");
      const ssize_t count = ::read(ends[0], bytes, sizeof bytes);
      ASSERT_GT(count, 0);
      text.append(bytes, static_cast<size_t>(count));
    }
  }
  EXPECT_GT(dropped_lines(text), 4000);
  ::close(ends[0]), ::close(ends[1]);
}

TEST(LineWriter, EndsWithinASecondThoughNobodyReads) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    LineWriter writer(ends[1]);
    for (int i = 0; i < 200; ++i) writer.write(std::string(1000, 'x'));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  // The thread is still in its write; it ends when all is read.
  constexpr size_t kBytes = 200 * 1001;
  std::string text(kBytes, '\0');
  size_t size = 0;
  for (ssize_t count = 0; size < kBytes; size += static_cast<size_t>(count)) {
    count = ::read(ends[0], text.data() + size, kBytes - size);
    ASSERT_GT(count, 0);
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 200'000);
  ::close(ends[1]);
  EXPECT_EQ(read_to_end(ends[0]), "");
  ::close(ends[0]);
}

TEST(LineWriter, GoesOnWhereTheDiskIsFull) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  {
    LineWriter writer(full);
    for (int i = 0; i < 100; ++i) writer.write("lost");
  }
  ::close(full);
}

}  // namespace
}  // namespace transom
