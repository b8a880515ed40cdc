// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

constexpr size_t kLongestBar = 30, kShortestBar = 5;
constexpr std::string_view kBytes = "B";
constexpr auto kInterval = std::chrono::milliseconds(100);

size_t terminal_width(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// Three digits and a power of 1000: "999", "1.23k", "498M".
std::string bytes_text(double count) {
  size_t power = 0;
  for (; count >= 999.5 && power < 5; ++power) count /= 1000;
  if (power == 0) return fmt::format("{:.0f}", count);
  return fmt::format("{:.{}f}{}", count, count < 9.995 ? 2 : count < 99.95 ? 1 : 0, " kMGTP"[power]);
}

std::string count_text(int64_t count, std::string_view unit) {
  return unit == kBytes ? bytes_text(static_cast<double>(count)) : fmt::format("{}", count);
}

std::string rate_text(double rate, std::string_view unit) {
  if (!(rate > 0)) return fmt::format("? {}/s", unit);
  if (unit == kBytes) return fmt::format("{}{}/s", bytes_text(rate), unit);
  if (rate < 1) return fmt::format("{:.2f} s/{}", 1 / rate, unit);
  return fmt::format("{:.{}f} {}/s", rate, rate < 100 ? 2 : 0, unit);
}

// Columns of UTF-8 text, a character one column.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cut(std::string text, size_t width) {
  while (columns_of(text) > width) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    text.pop_back();
  }
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto all = static_cast<int64_t>(std::llround(seconds));
  if (all >= 3600) return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
  return fmt::format("{}:{:02}", all / 60, all % 60);
}

std::string progress_line(const ProgressView& view, const ProgressFields& fields, size_t width) {
  const double rate = view.seconds > 0 ? static_cast<double>(view.done - view.done_at_start) / view.seconds : 0;
  const double share =
      view.total > 0 ? std::clamp(static_cast<double>(view.done) / static_cast<double>(view.total), 0.0, 1.0) : 0;
  const double left = rate > 0 && view.total > 0 ? static_cast<double>(view.total - view.done) / rate : -1;

  const std::string head = view.title.empty() ? std::string() : fmt::format("{} ", view.title);
  std::string tail = count_text(view.done, view.unit);
  if (view.total > 0) tail = fmt::format(" {}/{}", tail, count_text(view.total, view.unit));
  tail += fmt::format(" [{}", duration_text(view.seconds));
  if (view.total > 0) tail += fmt::format("<{}", duration_text(left));
  tail += fmt::format(", {}]", rate_text(rate, view.unit));

  const size_t frame = columns_of(head) + (view.total > 0 ? kShortestBar + 2 : 0);
  for (const auto& [name, value] : fields) {
    const std::string field = fmt::format(" {}={}", name, value);
    if (frame + columns_of(tail) + columns_of(field) > width) break;
    tail += field;
  }
  if (view.total <= 0) return cut(head + tail, width);
  const size_t used = columns_of(head) + columns_of(tail) + 2;
  if (used + kShortestBar > width) return cut(head + tail.substr(1), width);
  const size_t bar = std::min(kLongestBar, width - used);
  const auto full = static_cast<size_t>(share * static_cast<double>(bar));
  return fmt::format("{}[{}{}]{}", head, std::string(full, '#'), std::string(bar - full, '.'), tail);
}

Progress::Progress(std::FILE* out, std::string title, int64_t total, std::string unit, int64_t done)
    : out_(out),
      shown_(out && ::isatty(::fileno(out)) != 0),
      title_(std::move(title)),
      unit_(std::move(unit)),
      done_(done),
      total_(total),
      done_at_start_(done),
      start_(Clock::now()) {}

Progress::~Progress() {
  if (!shown_) return;
  draw(Clock::now());
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::update(int64_t done, ProgressFields fields) {
  done_ = done;
  if (!fields.empty()) fields_ = std::move(fields);
  if (!shown_) return;
  const auto now = Clock::now();
  if (drawn_ && now - last_ < kInterval && done_ != total_) return;
  draw(now);
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  drawn_ = false;
}

void Progress::draw(Clock::time_point now) {
  const ProgressView view{title_, done_, total_, done_at_start_, std::chrono::duration<double>(now - start_).count(),
                          unit_};
  // The last column stays free: some terminals wrap when it is written.
  const std::string line = progress_line(view, fields_, terminal_width(out_) - 1);
  fmt::print(out_, "\r{}\x1b[K", line);
  std::fflush(out_);
  last_ = now;
  drawn_ = true;
}

}  // namespace transom
