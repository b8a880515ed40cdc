// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/training_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace transom {
namespace {

constexpr double kWidth = 720, kHeight = 360, kLeft = 64, kRight = 64, kTop = 40, kBottom = 48;

struct Curve {
  std::string name, color;
  std::vector<std::pair<double, double>> points;  // step, value
  bool dots = false;
};

// The values of one name in the log; where a step has several, the last.
std::vector<std::pair<double, double>> points_of(const TrainerState& state, std::string_view name) {
  std::vector<std::pair<double, double>> points;
  for (const LogRecord& record : state.log_history) {
    const std::optional<double> value = find_number(record, name), step = find_number(record, "step");
    if (!value || !step || !std::isfinite(*value)) continue;
    if (!points.empty() && points.back().first == *step) points.back().second = *value;
    else points.emplace_back(*step, *value);
  }
  return points;
}

// The reward of a policy, whose loss says little, or the part of pairs that are told apart; else the first number that
// evaluation gave besides the loss and how long it took.
std::string metric_name(const TrainerState& state) {
  for (const char* of_training : {"reward", "rewards/accuracies"})
    if (!points_of(state, of_training).empty()) return of_training;
  constexpr std::array<std::string_view, 3> kTimes = {"eval_runtime", "eval_samples_per_second",
                                                      "eval_steps_per_second"};
  for (const LogRecord& record : state.log_history)
    for (const auto& [name, value] : record)
      if (name.starts_with("eval_") && name != "eval_loss" &&
          std::find(kTimes.begin(), kTimes.end(), name) == kTimes.end())
        return name;
  return "";
}

// An axis from `low` to `high` with marks at round numbers.
struct Axis {
  double low, high, mark;

  static Axis around(double low, double high) {
    if (high - low < 1e-12) low -= 0.5, high += 0.5;
    const double rough = (high - low) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
    double mark = power * 10;
    for (const double step : {1.0, 2.0, 5.0})
      if (rough <= step * power) {
        mark = step * power;
        break;
      }
    return {std::floor(low / mark) * mark, std::ceil(high / mark) * mark, mark};
  }
  double place(double value, double from, double to) const { return from + (value - low) / (high - low) * (to - from); }
  std::string label(double value) const {
    return fmt::format("{:.{}f}", value, std::max(0, static_cast<int>(std::ceil(-std::log10(mark) - 1e-9))));
  }
};

Axis axis_of(const std::vector<const Curve*>& curves, bool from_zero) {
  double low = from_zero ? 0 : 1e300, high = -1e300;
  for (const Curve* curve : curves)
    for (const auto& [step, value] : curve->points) low = std::min(low, value), high = std::max(high, value);
  return Axis::around(low, high);
}

std::string draw(const Curve& curve, const Axis& x, const Axis& y) {
  std::string path, dots;
  for (const auto& [step, value] : curve.points) {
    const double at_x = x.place(step, kLeft, kWidth - kRight), at_y = y.place(value, kHeight - kBottom, kTop);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", at_x, at_y);
    if (curve.dots)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at_x, at_y, curve.color);
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n{}",
                     path, curve.color, dots);
}

}  // namespace

std::string draw_training_curve(const TrainerState& state) {
  const std::string metric = metric_name(state);
  const Curve loss{"loss", "#2563eb", points_of(state, "loss")},
      eval{"eval_loss", "#d97706", points_of(state, "eval_loss"), true},
      other{metric, "#059669", metric.empty() ? Curve().points : points_of(state, metric), true};
  if (loss.points.size() < 2) return "";
  std::vector<const Curve*> losses{&loss}, others;
  if (!eval.points.empty()) losses.push_back(&eval);
  if (!other.points.empty()) others.push_back(&other);

  const Axis x = Axis::around(0, static_cast<double>(std::max<int64_t>(state.global_step, 1))),
             y = axis_of(losses, true);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>text{{fill:#444}}.grid{{stroke:#8884;stroke-width:1}}"
      "@media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n",
      kWidth, kHeight);
  for (double mark = y.low; mark <= y.high + y.mark / 2; mark += y.mark) {
    const double at = y.place(mark, kHeight - kBottom, kTop);
    svg += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kLeft, at, kWidth - kRight);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, at + 4, y.label(mark));
  }
  for (double mark = x.low; mark <= x.high + x.mark / 2; mark += x.mark)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       x.place(mark, kLeft, kWidth - kRight), kHeight - kBottom + 18, x.label(mark));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", kWidth / 2, kHeight - 10);
  for (const Curve* curve : losses) svg += draw(*curve, x, y);
  if (!others.empty()) {
    const Axis right = axis_of(others, false);
    for (double mark = right.low; mark <= right.high + right.mark / 2; mark += right.mark)
      svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", kWidth - kRight + 8,
                         right.place(mark, kHeight - kBottom, kTop) + 4, right.label(mark));
    for (const Curve* curve : others) svg += draw(*curve, x, right);
  }
  double at = kLeft;
  std::vector<const Curve*> all = losses;
  all.insert(all.end(), others.begin(), others.end());
  for (const Curve* curve : all) {
    svg +=
        fmt::format("<path d=\"M{0} 20h18\" stroke=\"{1}\" stroke-width=\"2\"/><text x=\"{2}\" y=\"24\">{3}</text>\n",
                    at, curve->color, at + 24, curve->name);
    at += 44 + 7 * static_cast<double>(curve->name.size());
  }
  return svg + "</svg>\n";
}

}  // namespace transom
