// SPDX-License-Identifier: Apache-2.0
// A line on a terminal that shows how far something is: a bar, done of total, the rate, the time gone and left, and
// fields such as the loss. On anything but a terminal it writes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom {

using ProgressFields = std::vector<std::pair<std::string, std::string>>;

// What the line shows; `total` 0 where it is not known.
struct ProgressView {
  std::string_view title;
  int64_t done = 0, total = 0;
  int64_t done_at_start = 0;     // a resumed run: not counted in the rate
  double seconds = 0;            // since the start
  std::string_view unit = "it";  // "B": bytes, shown as 12.3M
};

// The line in at most `width` columns: fields that do not fit are left out from the last, then the bar shrinks.
std::string progress_line(const ProgressView& view, const ProgressFields& fields, size_t width);
// 75 s as "1:15", 3661 s as "1:01:01"; "?" for less than 0.
std::string duration_text(double seconds);

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  Progress(std::FILE* out, std::string title, int64_t total, std::string unit = "it", int64_t done = 0);
  // Ends the line, so that what comes after stands below it.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws at most ten times a second, and always when all is done.
  void update(int64_t done, ProgressFields fields = {});
  // Removes the line, for text that the caller writes; the next update draws it again.
  void clear();

 private:
  void draw(Clock::time_point now);
  std::FILE* out_;
  bool shown_ = false;  // whether `out` is a terminal
  bool drawn_ = false;  // whether a line stands there
  std::string title_, unit_;
  int64_t done_, total_, done_at_start_;
  ProgressFields fields_;
  Clock::time_point start_, last_;
};

}  // namespace transom
