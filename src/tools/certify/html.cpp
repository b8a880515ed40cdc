// SPDX-License-Identifier: Apache-2.0
// The report as a page: tables, and plots as inline SVG.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/certify/report.h"

namespace transom::certify {
namespace {

constexpr const char* kStyle = R"(
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2430}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%;font-size:.85rem}
th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #e3e7ec;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}.pass{color:#11734b}.fail{color:#b3261e;font-weight:600}
.other{color:#6b5b00}svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#3b4654})";

// A point a row: the worst error by what is allowed, on a logarithmic axis whose right edge is the bound.
std::string plot_shares(const std::vector<const Row*>& rows) {
  constexpr double kWidth = 900, kLeft = 230, kLine = 13, kDecades = 4;
  const double height = 30 + kLine * static_cast<double>(rows.size());
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="worst error by what is allowed">)",
                                kWidth, height);
  const auto x_of = [&](double share) {
    const double decade = std::clamp(std::log10(std::max(share, 1e-9)), -kDecades, 0.6);
    return kLeft + (decade + kDecades) / (kDecades + 0.6) * (kWidth - kLeft - 10);
  };
  for (int decade = -4; decade <= 0; ++decade)
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="18" y2="{1}" stroke="{2}"/><text x="{0:.1f}" y="12" text-anchor="middle">{3}</text>)",
        x_of(std::pow(10.0, decade)), height, decade == 0 ? "#b3261e" : "#e3e7ec",
        decade == 0 ? "bound" : fmt::format("{:g}", std::pow(10.0, decade)));
  double y = 30;
  for (const Row* row : rows) {
    svg += fmt::format(
        R"(<text x="0" y="{:.1f}">{}<title>{}</title></text><circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"/>)", y,
        escaped(shortened(row->subject + " " + row->variant, 36)), escaped(row->subject + " " + row->variant),
        x_of(row->ratio), y - 4, row->verdict == Verdict::kFail ? "#b3261e" : "#11734b");
    y += kLine;
  }
  return svg + "</svg>";
}

std::string plot_curve(const Curve& curve) {
  constexpr double kWidth = 520, kHeight = 220, kLeft = 50, kBottom = 25;
  double low = INFINITY, high = -INFINITY;
  for (const auto* values : {&curve.expected, &curve.found})
    for (const double value : *values)
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  if (!(high > low)) high = low + 1;
  const auto line = [&](const std::vector<double>& values, const char* style) {
    std::string points;
    for (size_t i = 0; i < values.size(); ++i)
      if (std::isfinite(values[i]))
        points += fmt::format("{:.1f},{:.1f} ",
                              kLeft + (kWidth - kLeft - 10) * static_cast<double>(i) /
                                          static_cast<double>(std::max<size_t>(values.size(), 2) - 1),
                              10 + (kHeight - kBottom - 10) * (high - values[i]) / (high - low));
    return fmt::format(R"(<polyline fill="none" points="{}" {}/>)", points, style);
  };
  return fmt::format(
      R"(<svg viewBox="0 0 {0} {1}" width="{0}" role="img" aria-label="loss of {2}"><text x="0" y="16">{3:.4g}</text>)"
      R"(<text x="0" y="{4}">{5:.4g}</text><text x="{6}" y="{7}">step, {8} in all; wide: reference, narrow: the device</text>{9}{10}</svg>)",
      kWidth, kHeight, escaped(curve.name), high, kHeight - kBottom, low, kLeft, kHeight - 6, curve.found.size(),
      line(curve.expected, R"(stroke="#b9cbe8" stroke-width="7")"),
      line(curve.found, R"(stroke="#1f4f99" stroke-width="2")"));
}

std::string amount(double value) { return std::isfinite(value) ? fmt::format("{:.3g}", value) : "-"; }

}  // namespace

std::string to_html(const Report& report) {
  const DeviceInfo& d = report.device;
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Certificate of {0}</title>"
      "<style>{1}</style></head><body>\n<h1>{0}: <span class=\"{2}\">{2}</span></h1>\n"
      "<p>{3}, {4}, {5}; plugin {6} {7}{8}. Seed {9}.</p>\n",
      escaped(d.name), kStyle, report.passed() ? "pass" : "fail", escaped(d.description), escaped(d.architecture),
      escaped(d.driver), escaped(fs::path(d.plugin).filename().string()), escaped(report.plugin_version),
      d.emulated ? "; <b>emulated</b>" : "", report.seed);
  if (const Row* first = report.first_failure())
    page += fmt::format("<p class=\"fail\">First failure: {} {}: {}</p>\n", escaped(first->subject),
                        escaped(first->variant), escaped(first->note));
  for (const std::string& level : report.levels) {
    std::vector<const Row*> rows, judged;
    for (const Row& row : report.rows)
      if (row.level == level) {
        rows.push_back(&row);
        if (row.bound > 0 && row.verdict != Verdict::kNotSupported) judged.push_back(&row);
      }
    page += fmt::format("<h2>{}</h2>\n", escaped(level));
    if (level == "models")
      for (const Curve& curve : report.curves)
        page += fmt::format("<h3>{}</h3>{}\n", escaped(curve.name), plot_curve(curve));
    if (!judged.empty()) page += plot_shares(judged) + "\n";
    page += "<table><tr><th>what</th><th></th><th>cases</th><th>worst</th><th>bound</th><th>verdict</th></tr>\n";
    for (const Row* row : rows)
      page += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
          "<td class=\"{}\">{}{}</td></tr>\n",
          escaped(row->subject), escaped(row->variant), row->cases, amount(row->worst), amount(row->bound),
          row->verdict == Verdict::kPass   ? "pass"
          : row->verdict == Verdict::kFail ? "fail"
                                           : "other",
          name_of(row->verdict), row->note.empty() ? "" : ": " + escaped(row->note));
    page += "</table>\n";
  }
  return page + "</body></html>\n";
}

}  // namespace transom::certify
