// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/terminal/terminal_dashboard.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace transom::dashboard {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(500);
constexpr size_t kMostWidth = 160, kMostHeight = 40;

// By the variables that decide it, without changing the locale of the process.
bool shows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value && *value) {
      const std::string_view text = value;
      return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos || text.find("UTF8") != text.npos;
    }
  return false;
}

ScreenStyle style_of(std::FILE* out) {
  ScreenStyle style{.unicode = shows_unicode(), .color = std::getenv("NO_COLOR") == nullptr};
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    style.width = std::min<size_t>(size.ws_col, kMostWidth);
    // The cursor stands in the line below.
    style.height = std::min<size_t>(size.ws_row > 1 ? size.ws_row - 1u : 1u, kMostHeight);
  }
  return style;
}

}  // namespace

TerminalDashboard::TerminalDashboard(std::FILE* out, std::shared_ptr<const RunMonitor> monitor)
    : out_(out), monitor_(std::move(monitor)), thread_([this] { work(); }) {}

TerminalDashboard::~TerminalDashboard() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
  draw();
}

void TerminalDashboard::work() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    draw();
    ended_.wait_for(lock, kInterval, [this] { return end_; });
  }
}

void TerminalDashboard::draw() {
  const ScreenStyle style = style_of(out_);
  const std::vector<std::string> lines = run_screen(monitor_->view(), style);
  std::string text;
  // A terminal that became narrower has broken the lines: all begins anew at the top.
  if (width_ != 0 && style.width != width_) text = "\x1b[H\x1b[J";
  else if (drawn_ > 0) text = fmt::format("\r\x1b[{}A", drawn_);
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  text += "\x1b[J";
  drawn_ = lines.size();
  width_ = style.width;
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

}  // namespace transom::dashboard
