// SPDX-License-Identifier: Apache-2.0
// Plans as one HTML page: throughput over devices, where the time of each goes, and the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/plan/plan.h"

namespace transom {
namespace {

constexpr const char* kColors[] = {"#3b6ea5", "#c9782c", "#4f9a5b", "#b5484f",
                                   "#7a4fa3", "#8a8a8a", "#2a9d8f", "#6b705c"};

// Tokens a second over devices, both logarithmic, one line a device.
std::string throughput_picture(const std::vector<Plan>& plans) {
  double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  for (const Plan& plan : plans) {
    if (!(plan.tokens_per_second > 0)) continue;
    lines[plan.device].emplace_back(plan.job.devices, plan.tokens_per_second);
    least_x = std::min(least_x, plan.job.devices), most_x = std::max(most_x, plan.job.devices);
    least_y = std::min(least_y, plan.tokens_per_second), most_y = std::max(most_y, plan.tokens_per_second);
  }
  if (lines.empty()) return "";
  constexpr double kWidth = 640, kHeight = 320, kLeft = 70, kBottom = 40;
  const auto scale = [](double value, double least, double most) {
    return most > least ? std::log(value / least) / std::log(most / least) : 0.5;
  };
  const auto x = [&](double value) { return kLeft + scale(value, least_x, most_x) * (kWidth - kLeft - 20); };
  const auto y = [&](double value) {
    return kHeight - kBottom - scale(value, least_y, most_y) * (kHeight - kBottom - 20);
  };
  std::string svg = fmt::format("<svg viewBox='0 0 {} {}' width='{}'>\n", kWidth + 180, kHeight, kWidth + 180);
  svg += fmt::format("<text x='{}' y='{}'>devices</text><text x='4' y='14'>tokens/s</text>\n", kWidth / 2, kHeight - 6);
  for (const double value : {least_x, most_x})
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:.6g}</text>\n", x(value), kHeight - 22, value);
  for (const double value : {least_y, most_y})
    svg += fmt::format("<text x='4' y='{:.1f}'>{:.3g}</text>\n", y(value) + 4, value);
  size_t index = 0;
  for (auto& [device, points] : lines) {
    std::sort(points.begin(), points.end());
    const char* color = kColors[index % std::size(kColors)];
    std::string path;
    for (const auto& [devices, rate] : points) {
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(devices), y(rate));
      svg += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='{}'><title>{} x {}: {:.4g} tokens/s</title></circle>\n",
          x(devices), y(rate), color, devices, escaped(device), rate);
    }
    svg += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path, color);
    svg +=
        fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", kWidth + 8, 20 + 18 * index++, color, escaped(device));
  }
  return svg + "</svg>\n";
}

// A bar a plan, of the shares of a step.
std::string time_picture(const std::vector<Plan>& plans) {
  constexpr std::array<const char*, 6> kNames = {"products",      "between products", "memory",
                                                 "communication", "bubble",           "host and launches"};
  constexpr double kBar = 440, kLeft = 200, kRow = 24;
  const size_t shown = std::min<size_t>(plans.size(), 60);
  std::string svg =
      fmt::format("<svg viewBox='0 0 820 {0}' width='820' height='{0}'>\n", 40 + kRow * static_cast<double>(shown));
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

}  // namespace

std::string plan_page(const std::vector<Plan>& plans) {
  std::string page =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>transom plan</title>\n<style>"
      "body{font:14px sans-serif;margin:2em;max-width:1000px}svg text{font:12px "
      "sans-serif}pre{overflow:auto}</style></head><body>\n";
  if (!plans.empty())
    page += fmt::format("<h1>{}, {}</h1>\n", escaped(plans[0].model), escaped(std::string(name_of(plans[0].job.task))));
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
