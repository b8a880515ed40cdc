// SPDX-License-Identifier: Apache-2.0
// A load test as one HTML page: what was seen over time, how latencies are spread, and the table.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/bench/serve/load_report.h"

namespace transom {
namespace {

constexpr double kWidth = 900, kHeight = 280, kLeft = 64, kRight = 150, kTop = 12, kBottom = 40;
constexpr const char* kColors[] = {"#3b6ea5", "#c9782c", "#4f9a5b", "#b5484f"};

struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;
  double place(double value) const {
    const double share =
        logarithmic ? std::log(std::max(value, low) / low) / std::log(high / low) : (value - low) / (high - low);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
  std::vector<double> marks() const {
    std::vector<double> found;
    if (logarithmic) {
      for (double mark = std::pow(10, std::ceil(std::log10(low) - 1e-9)); mark <= high * 1.001; mark *= 10)
        found.push_back(mark);
      return found;
    }
    const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double factor : {5., 2., 1.})
      if (rough <= factor * power) step = factor * power;
    for (double mark = low; mark <= high * 1.0001; mark += step) found.push_back(mark);
    return found;
  }
};

Axis across(double low, double high, bool logarithmic = false) {
  return {low, std::max(high, low + 1e-9), kLeft, kWidth - kRight, logarithmic};
}
Axis up(double low, double high, bool logarithmic = false) {
  return {low, std::max(high, low + 1e-9), kHeight - kBottom, kTop, logarithmic};
}

std::string frame(const Axis& x, const Axis& y, const char* title, const char* x_name, const char* y_name) {
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' width='{}' role='img' aria-label='{}'>\n", kWidth, kHeight, kWidth, title);
  for (const double mark : x.marks())
    svg += fmt::format(
        "<path class='grid' d='M{0:.1f} {1}V{2}'/><text x='{0:.1f}' y='{3}' text-anchor='middle'>{4:g}"
        "</text>\n",
        x.place(mark), kTop, kHeight - kBottom, kHeight - kBottom + 16, mark);
  for (const double mark : y.marks())
    svg += fmt::format(
        "<path class='grid' d='M{0} {1:.1f}H{2}'/><text x='{3}' y='{4:.1f}' text-anchor='end'>{5:g}"
        "</text>\n",
        kLeft, y.place(mark), kWidth - kRight, kLeft - 6, y.place(mark) + 4, mark);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 6,
                     x_name);
  return svg + fmt::format("<text transform='translate(14 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                           kHeight / 2, y_name);
}

std::string legend(size_t number, const std::string& name) {
  const double y = kTop + 14 + 20 * static_cast<double>(number);
  return fmt::format("<rect x='{}' y='{}' width='12' height='12' fill='{}'/><text x='{}' y='{}'>{}</text>\n",
                     kWidth - kRight + 14, y - 11, kColors[number], kWidth - kRight + 32, y, escaped(name));
}

std::string steps(const std::vector<double>& values, const Axis& x, const Axis& y, size_t color) {
  std::string path;
  for (size_t i = 0; i < values.size(); ++i)
    path += fmt::format("{}{:.1f} {:.1f}H{:.1f}", i == 0 ? "M" : "L", x.place(static_cast<double>(i)),
                        y.place(values[i]), x.place(static_cast<double>(i + 1)));
  return fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path, kColors[color]);
}

std::string seconds_picture(const LoadMetrics& m) {
  if (m.tokens_by_second.empty()) return "";
  const auto most = [](const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); };
  const Axis x = across(0, static_cast<double>(m.tokens_by_second.size())),
             y = up(0, std::max({1.0, most(m.tokens_by_second), most(m.running_by_second)}));
  return frame(x, y, "each second", "seconds", "a second") + steps(m.tokens_by_second, x, y, 0) +
         steps(m.running_by_second, x, y, 1) + legend(0, "pieces of text") + legend(1, "requests") + "</svg>\n";
}

// Each request at the time when it was sent.
std::string requests_picture(const LoadTestReport& report) {
  double last = 0, least = HUGE_VAL, most = 0;
  for (const LoadOutcome& each : report.result.outcomes) {
    if (!each.success) continue;
    last = std::max(last, each.start);
    least = std::min({least, each.first_token, each.latency});
    most = std::max(most, each.latency);
  }
  if (!(most > 0)) return "";
  const Axis x = across(0, std::max(last, 1e-3)), y = up(std::max(least * 0.8e3, 1e-3), most * 1.25e3, true);
  std::string svg = frame(x, y, "each request", "sent at, seconds", "ms");
  for (size_t i = 0; i < report.result.outcomes.size(); ++i) {
    const LoadOutcome& each = report.result.outcomes[i];
    const std::string title =
        fmt::format("request {}: {} tokens in, {} out, TTFT {:.1f} ms, E2EL {:.1f} ms", i, each.prompt_tokens,
                    each.output_tokens, each.first_token * 1e3, each.latency * 1e3);
    const auto dot = [&](double seconds, size_t color) {
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}</title></circle>\n",
                         x.place(each.start), y.place(seconds * 1e3), kColors[color], title);
    };
    if (!each.success) {
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'><title>request {}: {}</title></circle>\n",
                         x.place(each.start), y.from, kColors[3], i, escaped(each.error));
      continue;
    }
    if (report.options.api != LoadApi::kEmbeddings) dot(each.first_token, 0);
    dot(each.latency, 1);
  }
  return svg + legend(0, "first token") + legend(1, "whole answer") + legend(3, "failed") + "</svg>\n";
}

// Which share of the values lies below each time.
std::string spread_picture(const LoadTestReport& report) {
  const LoadMetrics& m = report.metrics;
  std::vector<std::pair<const char*, std::vector<double>>> lines;
  if (report.options.api != LoadApi::kEmbeddings) lines = {{"TTFT", m.ttfts}, {"ITL", m.itls}, {"E2EL", m.e2els}};
  else lines = {{"E2EL", m.e2els}};
  double least = HUGE_VAL, most = 0;
  for (auto& [name, values] : lines) {
    std::sort(values.begin(), values.end());
    if (values.empty()) continue;
    least = std::min(least, std::max(values.front(), 1e-6)), most = std::max(most, values.back());
  }
  if (!(most > 0)) return "";
  const Axis x = across(least * 0.8e3, most * 1.25e3, true), y = up(0, 100);
  std::string svg = frame(x, y, "how latencies are spread", "ms", "% of all below");
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string path;
    for (double percent = 0; percent <= 100 && !lines[i].second.empty(); percent += 0.5)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                          x.place(percentile(lines[i].second, percent) * 1e3), y.place(percent));
    svg += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n", path, kColors[i]);
    svg += legend(i, lines[i].first);
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string load_page(const LoadTestReport& report) {
  std::string page =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>transom bench serve</title>\n<style>"
      ":root{color-scheme:light dark}body{font:14px sans-serif;margin:2em;max-width:1000px}"
      "svg{max-width:100%;height:auto}svg text{font:12px sans-serif;fill:currentColor}"
      ".grid{stroke:currentColor;stroke-opacity:.15;fill:none}pre{overflow:auto}</style></head><body>\n";
  page += fmt::format("<h1>{}</h1>\n<p>{}, {}</p>\n", escaped(report.options.model), escaped(report.url),
                      escaped(report.date));
  page += "<h2>Figures</h2>\n<pre>" + escaped(load_table(report)) + "</pre>\n";
  page += "<h2>Each second</h2>\n" + seconds_picture(report.metrics);
  page += "<h2>Each request</h2>\n" + requests_picture(report);
  page += "<h2>Latencies</h2>\n" + spread_picture(report);
  return page + "</body></html>\n";
}

}  // namespace transom
