// SPDX-License-Identifier: Apache-2.0
// Plans as one HTML page: throughput over devices, where the time of each goes, and the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/plan/plan.h"

namespace transom {
namespace {

constexpr const char* kColors[] = {"#3b6ea5", "#c9782c", "#4f9a5b", "#b5484f",
                                   "#7a4fa3", "#8a8a8a", "#2a9d8f", "#6b705c"};

// Points of one device: (devices, tokens a second).
using Throughput = std::map<std::string, std::vector<std::pair<double, double>>>;

Throughput throughput_of(const std::vector<Plan>& plans) {
  Throughput lines;
  for (const Plan& plan : plans)
    if (plan.tokens_per_second > 0) lines[plan.device].emplace_back(plan.job.devices, plan.tokens_per_second);
  for (auto& [device, points] : lines) std::sort(points.begin(), points.end());
  return lines;
}

// 1234567 as "1,234,567".
std::string grouped_number(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  if (value < 10) return fmt::format("{:.3g}", value);
  for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

// A logarithmic axis from the decade's 1, 2 or 5 below all values to the one above them.
class LogAxis {
 public:
  LogAxis(double least, double most) {
    const double decade = std::pow(10, std::floor(std::log10(least)));
    for (double start = decade; ticks_.empty() || ticks_.back() < most; start *= 10)
      for (const double step : {1.0, 2.0, 5.0}) {
        const double tick = start * step;
        if (tick <= least) ticks_.clear();
        if (ticks_.empty() || ticks_.back() < most) ticks_.push_back(tick);
      }
    if (ticks_.size() == 1) ticks_.push_back(ticks_[0] * 2);
  }
  const std::vector<double>& ticks() const { return ticks_; }
  double share(double value) const {
    return std::log(value / ticks_.front()) / std::log(ticks_.back() / ticks_.front());
  }

 private:
  std::vector<double> ticks_;
};

// A bar for each device, where all plans are of the same number of devices.
std::string throughput_bars(const Throughput& lines) {
  constexpr double kBar = 480, kLeft = 200, kRow = 26;
  double most = 0;
  for (const auto& [device, points] : lines) most = std::max(most, points.back().second);
  const double height = 30 + kRow * static_cast<double>(lines.size());
  std::string svg =
      fmt::format("<svg viewBox='0 0 820 {0}'>\n<text x='{1}' y='14'>tokens a second</text>\n", height, kLeft);
  size_t index = 0;
  for (const auto& [device, points] : lines) {
    const double top = 24 + kRow * static_cast<double>(index);
    svg += fmt::format(
        "<text x='4' y='{:.0f}'>{:g} x {}</text><rect x='{}' y='{:.0f}' width='{:.1f}' height='18' fill='{}'/>"
        "<text x='{:.1f}' y='{:.0f}'>{}</text>\n",
        top + 13, points.back().first, escaped(device), kLeft, top, points.back().second / most * kBar,
        kColors[index % std::size(kColors)], kLeft + points.back().second / most * kBar + 6, top + 13,
        grouped_number(points.back().second));
    ++index;
  }
  return svg + "</svg>\n";
}

// Tokens a second over devices, both logarithmic, one line a device.
std::string throughput_lines(const Throughput& lines) {
  double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
  std::set<double> counts;
  for (const auto& [device, points] : lines)
    for (const auto& [devices, rate] : points) {
      counts.insert(devices);
      least_x = std::min(least_x, devices), most_x = std::max(most_x, devices);
      least_y = std::min(least_y, rate), most_y = std::max(most_y, rate);
    }
  constexpr double kRight = 630, kBottom = 290, kTop = 24, kLeft = 84;
  const LogAxis rates(least_y, most_y);
  const auto x = [&](double value) {
    return kLeft + std::log(value / least_x) / std::log(most_x / least_x) * (kRight - kLeft);
  };
  const auto y = [&](double value) { return kBottom - rates.share(value) * (kBottom - kTop); };
  std::string svg = fmt::format(
      "<svg viewBox='0 0 820 330'>\n<text x='4' y='14'>tokens a second</text>"
      "<text x='{}' y='{}' text-anchor='middle'>devices</text>\n",
      (kLeft + kRight) / 2, kBottom + 36);
  for (const double tick : rates.ticks())
    svg += fmt::format(
        "<line x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}' stroke='#ddd'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor='end'>{5}</text>\n",
        kLeft, kRight, y(tick), kLeft - 6, y(tick) + 4, grouped_number(tick));
  for (const double devices : counts)
    svg += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' stroke='#eee'/>"
        "<text x='{0:.1f}' y='{3}' text-anchor='middle'>{4:g}</text>\n",
        x(devices), kTop, kBottom, kBottom + 18, devices);
  size_t index = 0;
  for (const auto& [device, points] : lines) {
    const char* color = kColors[index % std::size(kColors)];
    std::string path;
    for (const auto& [devices, rate] : points) {
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(devices), y(rate));
      svg += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='{}'><title>{:g} x {}: {} tokens/s</title></circle>\n",
          x(devices), y(rate), color, devices, escaped(device), grouped_number(rate));
    }
    svg += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path, color);
    svg += fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", kRight + 12, 34 + 18 * index++, color,
                       escaped(device));
  }
  return svg + "</svg>\n";
}

std::string throughput_picture(const std::vector<Plan>& plans) {
  const Throughput lines = throughput_of(plans);
  if (lines.empty()) return "";
  const double devices = lines.begin()->second.front().first;
  const bool one_count = std::all_of(lines.begin(), lines.end(), [&](const auto& line) {
    return line.second.front().first == devices && line.second.back().first == devices;
  });
  return one_count ? throughput_bars(lines) : throughput_lines(lines);
}

// A bar a plan, of the shares of a step.
std::string time_picture(const std::vector<Plan>& plans) {
  constexpr std::array<const char*, 6> kNames = {"products",      "between products", "memory",
                                                 "communication", "bubble",           "host and launches"};
  constexpr double kBar = 440, kLeft = 200, kRow = 24;
  const size_t shown = std::min<size_t>(plans.size(), 60);
  std::string svg = fmt::format("<svg viewBox='0 0 820 {0}'>\n", 40 + kRow * static_cast<double>(shown));
  for (size_t i = 0; i < kNames.size(); ++i)
    svg += fmt::format("<rect x='{0}' y='4' width='12' height='12' fill='{1}'/><text x='{2}' y='15'>{3}</text>\n",
                       10 + 135 * i, kColors[i], 26 + 135 * i, kNames[i]);
  for (size_t p = 0; p < shown; ++p) {
    const Plan& plan = plans[p];
    const double parts[] = {plan.time.matrix, plan.time.vector, plan.time.memory, plan.time.exposed_communication,
                            plan.time.bubble, plan.time.fixed};
    const double total = std::max(1e-30, plan.time.total()), top = 30 + kRow * static_cast<double>(p);
    svg += fmt::format("<text x='4' y='{:.0f}'>{} x {}</text>\n", top + 13, plan.job.devices, escaped(plan.device));
    double at = kLeft;
    for (size_t i = 0; i < kNames.size(); ++i) {
      const double width = parts[i] / total * kBar;
      svg += fmt::format(
          "<rect x='{:.1f}' y='{:.0f}' width='{:.1f}' height='16' fill='{}'><title>{} {:.1f} %</title></rect>\n", at,
          top, width, kColors[i], kNames[i], 100 * parts[i] / total);
      at += width;
    }
  }
  return svg + "</svg>\n";
}

// What people call a model: the last part of its path, with the one before where that says nothing.
std::string title_of(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  const std::filesystem::path whole = path.has_filename() ? path : path.parent_path();
  const std::string name = whole.filename().string();
  const std::string before = whole.parent_path().filename().string();
  return (name == "model" || name == "checkpoint") && !before.empty() ? before + "/" + name : name;
}

}  // namespace

std::string plan_page(const std::vector<Plan>& plans) {
  std::string page =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>transom plan</title>\n<style>"
      "body{font:14px sans-serif;margin:2em auto;max-width:1100px;padding:0 1em}svg{width:100%;max-width:900px}"
      "svg text{font:12px sans-serif}pre{font-size:12px;white-space:pre-wrap}</style></head><body>\n";
  if (!plans.empty())
    page += fmt::format("<h1>{}, {}</h1>\n", escaped(title_of(plans[0].model)),
                        escaped(std::string(name_of(plans[0].job.task))));
  page += "<p>Predicted, not measured. Each figure has the error that past predictions of its kind had.</p>\n";
  page += "<h2>Throughput</h2>\n" + throughput_picture(plans);
  page += "<h2>Where the time goes</h2>\n" + time_picture(plans);
  page += "<h2>Figures</h2>\n";
  page += "<pre>" + escaped(plan_table(plans)) + "</pre>\n";
  if (plans.size() > 1)
    for (const Plan& plan : plans) page += "<pre>" + escaped(plan_table({plan})) + "</pre>\n";
  return page + "</body></html>\n";
}

}  // namespace transom
