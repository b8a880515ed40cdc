// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/terminal/run_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/dashboard/terminal/line_chart.h"
#include "base/terminal/progress.h"

namespace transom::dashboard {
namespace {

constexpr size_t kLeastChartHeight = 6, kLeastChartWidth = 36, kMostMessageLines = 4;

const Series* find(const RunView& view, std::string_view name) {
  for (const Series& series : view.series)
    if (series.name() == name && !series.points().empty()) return &series;
  return nullptr;
}

std::string megabytes(uint64_t bytes) { return fmt::format("{:.0f} MB", static_cast<double>(bytes) * 1e-6); }

std::string bar(double share, size_t width, bool unicode) {
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) + 0.5);
  std::string text;
  for (size_t i = 0; i < width; ++i)
    text += i < full ? (unicode ? "\xe2\x96\x88" : "#") : (unicode ? "\xe2\x96\x91" : "-");
  return text;
}

std::string progress(const RunStatus& s, const ScreenStyle& style) {
  const double share = s.max_steps > 0 ? static_cast<double>(s.step) / static_cast<double>(s.max_steps) : 0;
  std::string text = fmt::format("step {} of {}  ", s.step, s.max_steps);
  const std::string behind =
      fmt::format("  {:.0f} %  epoch {:.2f} of {}  {} gone, {} left", 100 * share, s.epoch, s.epochs,
                  duration_text(s.seconds), s.seconds_left ? duration_text(*s.seconds_left) : "?");
  if (const size_t rest = text.size() + behind.size(); style.width > rest + 8)
    text += bar(share, std::min<size_t>(style.width - rest, 30), style.unicode);
  return text + behind;
}

std::string rates(const RunStatus& s) {
  std::string text;
  if (s.steps_per_second > 0) {
    text = s.steps_per_second >= 1 ? fmt::format("{:.2f} steps/s", s.steps_per_second)
                                   : fmt::format("{:.2f} s a step", 1 / s.steps_per_second);
    text += fmt::format("  {:.1f} samples/s", s.steps_per_second * static_cast<double>(s.samples_per_step));
  }
  if (s.memory.resident > 0)
    text += fmt::format("{}memory {} (peak {})", text.empty() ? "" : "  ", megabytes(s.memory.resident),
                        megabytes(s.memory.resident_peak));
  if (s.memory.device > 0) {
    text += fmt::format("  device {} (peak {}", megabytes(s.memory.device), megabytes(s.memory.device_peak));
    text += s.memory.device_limit > 0 ? fmt::format(", of {})", megabytes(s.memory.device_limit)) : ")";
  }
  if (s.saved_step) text += fmt::format("  saved step {}", *s.saved_step);
  return text;
}

// The loss and what says most beside it: a metric of the evaluation, its loss, the learning rate.
std::vector<const Series*> charts(const RunView& view, size_t most) {
  std::vector<const Series*> chosen;
  const auto take = [&](const Series* series) {
    if (series && chosen.size() < most && std::find(chosen.begin(), chosen.end(), series) == chosen.end())
      chosen.push_back(series);
  };
  take(find(view, "loss"));
  const Series* metric = nullptr;
  for (const Series& series : view.series)
    if (series.name().starts_with("eval_") && series.name() != "eval_loss" && !series.points().empty() && !metric)
      metric = &series;
  take(find(view, "eval_loss"));
  take(metric);
  take(find(view, "grad_norm"));
  take(find(view, "learning_rate"));
  take(find(view, "memory_mb"));
  return chosen;
}

}  // namespace

std::vector<std::string> run_screen(const RunView& view, const ScreenStyle& style) {
  const RunStatus& s = view.status;
  const auto colored = [&](const char* code, const std::string& text) {
    return style.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::vector<std::string> lines;
  const auto add = [&](const std::string& text, const char* code = nullptr) {
    const std::string line = fitted(text, style.width);
    lines.push_back(code ? colored(code, line) : line);
  };
  std::string head = fmt::format("{}: {}", name_of(s.phase), s.model);
  if (!s.task.empty()) head += "  " + s.task;
  if (!s.device.empty()) {
    head += fmt::format("  on {}, {} threads, {}", s.device, s.threads, s.precision);
    if (s.processes > 1) head += fmt::format(", {} processes", s.processes);
  }
  add(head, "1");
  add(progress(s, style));
  add(rates(s));

  const size_t messages = std::min(view.messages.size(), kMostMessageLines);
  const size_t taken = lines.size() + messages + 1;
  if (style.height >= taken + kLeastChartHeight) {
    const size_t room = style.height - taken;
    const size_t columns = std::clamp<size_t>(style.width / kLeastChartWidth, 1, 3);
    const size_t rows = std::clamp<size_t>(room / kLeastChartHeight, 1, 2);
    const auto chosen = charts(view, rows * columns);
    const size_t used_rows = std::max<size_t>(1, (chosen.size() + columns - 1) / columns);
    const ChartStyle chart{.width = (style.width - 2 * (columns - 1)) / columns,
                           .height = std::min<size_t>(room / used_rows, 14),
                           .unicode = style.unicode};
    for (size_t first = 0; first < chosen.size(); first += columns) {
      std::vector<std::string> joined(chart.height);
      for (size_t i = first; i < std::min(first + columns, chosen.size()); ++i) {
        const std::vector<std::string> drawn = line_chart(*chosen[i], chart);
        for (size_t y = 0; y < chart.height; ++y)
          joined[y] += (i > first ? "  " : "") + (y == 0 ? colored("1", drawn[y]) : colored("36", drawn[y]));
      }
      lines.insert(lines.end(), joined.begin(), joined.end());
    }
  }
  add("");
  for (size_t i = view.messages.size() - messages; i < view.messages.size(); ++i)
    add(view.messages[i].text, view.messages[i].warning ? "33" : nullptr);
  if (lines.size() > style.height) lines.resize(style.height);
  return lines;
}

}  // namespace transom::dashboard
