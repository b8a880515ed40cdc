// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/charts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/terminal/display.h"

namespace transom {
namespace {

constexpr double kWidth = 1100, kLeft = 90, kRight = 20, kTop = 14, kBottom = 34;

// A place in the picture for numbers of an axis.
struct Axis {
  double low, high, from, to;
  bool logarithmic = false;
  double place(double value) const {
    const double share =
        logarithmic ? (std::log10(std::max(value, 1e-30)) - std::log10(low)) / (std::log10(high) - std::log10(low))
                    : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

// 1, 2 or 5 times a power of ten, so that about five steps fill the range.
double step_of(double range) {
  const double rough = std::max(range, 1e-12) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1., 2., 5.})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

std::string svg_begin(double height, const char* label) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, height, label);
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2, y2,
                     style);
}

std::string bottom_axis(const Axis& axis, double y, const std::string& unit) {
  std::string text = line(axis.from, y, axis.to, y, "axis");
  const double step = step_of(axis.high - axis.low);
  for (double value = axis.low; value <= axis.high * 1.0001; value += step) {
    text += line(axis.place(value), y, axis.place(value), y + 4, "axis");
    text += text_at(axis.place(value), y + 16, fmt::format("{:g}", value));
  }
  return text + text_at((axis.from + axis.to) / 2, y + 30, unit);
}

std::string left_axis(const Axis& axis, const std::string& unit) {
  std::string text;
  const double step = step_of(axis.high - axis.low);
  for (double value = axis.low; value <= axis.high * 1.0001; value += step) {
    text += line(kLeft, axis.place(value), kWidth - kRight, axis.place(value), "grid");
    text += text_at(kLeft - 6, axis.place(value) + 4, fmt::format("{:g}", value), "end");
  }
  return text + fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                            (axis.from + axis.to) / 2, unit);
}

std::string title_of(const Explanation& e, const Explanation::Kernel& k) {
  std::string text = fmt::format("{} {}\n{}", k.values, k.operation, k.types);
  if (!k.scope.empty()) text += "\n" + k.scope;
  if (!k.kernel.empty()) text += "\n" + k.kernel;
  if (k.seconds > 0)
    text += fmt::format("\n{:.1f} us, the limit allows {:.1f} us ({}), {:.1f} % of the time", k.seconds * 1e6,
                        k.least * 1e6, k.by_memory ? "memory" : "arithmetic",
                        100 * k.seconds / std::max(e.kernel_seconds, 1e-12));
  return "<title>" + escaped(text) + "</title>";
}

// The place among kKernelKinds.
size_t row_of(const Explanation::Kernel& kernel) {
  size_t row = 0;
  while (row + 1 < std::size(kKernelKinds) && kernel.kind != kKernelKinds[row].name) ++row;
  return row;
}

const char* color_of(const Explanation::Kernel& kernel) { return kKernelKinds[row_of(kernel)].color; }

}  // namespace

std::string timeline_picture(const Explanation& e) {
  constexpr size_t kRows = std::size(kKernelKinds);
  constexpr double kRow = 26;
  const double bottom = kTop + kRows * kRow;
  double end = 1e-9;
  for (const Explanation::Moment& moment : e.timeline) end = std::max(end, moment.end);
  const Axis time{0, end * 1e3, kLeft, kWidth - kRight};
  std::string text = svg_begin(bottom + kBottom, "kernels over time");
  for (size_t row = 0; row < kRows; ++row) {
    text += text_at(kLeft - 6, kTop + (static_cast<double>(row) + 0.65) * kRow, kKernelKinds[row].name, "end");
    text += line(kLeft, kTop + static_cast<double>(row + 1) * kRow, kWidth - kRight,
                 kTop + static_cast<double>(row + 1) * kRow, "grid");
  }
  for (const Explanation::Moment& moment : e.timeline) {
    const Explanation::Kernel& kernel = e.kernels[moment.node];
    const double x = time.place(moment.begin * 1e3);
    text +=
        fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\">{}</rect>\n", x,
                    kTop + static_cast<double>(row_of(kernel)) * kRow + 3,
                    std::max(0.4, time.place(moment.end * 1e3) - x), kRow - 6, color_of(kernel), title_of(e, kernel));
  }
  return text + bottom_axis(time, bottom, "ms") + "</svg>\n";
}

std::string memory_picture(const Explanation& e) {
  constexpr double kHeight = 260;
  const auto nodes = static_cast<double>(std::max<size_t>(e.live.size(), 1));
  const double most = std::max(static_cast<double>(std::max(e.arena_bytes, e.live_maximum)) / 1e6, 1e-6);
  const Axis across{0, nodes, kLeft, kWidth - kRight}, up{0, most * 1.08, kHeight - kBottom, kTop};
  std::string text = svg_begin(kHeight, "live memory over the nodes") + left_axis(up, "MB");
  std::string path = fmt::format("M{:.1f} {:.1f}", across.from, up.from);
  for (size_t n = 0; n < e.live.size(); ++n)
    path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", across.place(static_cast<double>(n)),
                        up.place(static_cast<double>(e.live[n]) / 1e6), across.place(static_cast<double>(n + 1)),
                        up.place(static_cast<double>(e.live[n]) / 1e6));
  text +=
      fmt::format("<path d=\"{}L{:.1f} {:.1f}Z\" fill=\"#9db8d2\" stroke=\"#3b6ea5\"/>\n", path, across.to, up.from);
  const auto level = [&](int64_t bytes, const char* style, const char* name) {
    const double y = up.place(static_cast<double>(bytes) / 1e6);
    text += line(across.from, y, across.to, y, style);
    text += text_at(across.to - 4, y - 4, fmt::format("{} {:.1f} MB", name, static_cast<double>(bytes) / 1e6), "end");
  };
  level(e.arena_bytes, "level", "arena");
  for (size_t n = 0; n < e.live.size(); ++n) {  // what the pointer finds
    const double x = across.place(static_cast<double>(n));
    text += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{:.1f}\" "
        "fill=\"transparent\"><title>{}</title></rect>\n",
        x, kTop, (across.to - across.from) / nodes, up.from - kTop,
        escaped(fmt::format("node {}: {:.2f} MB live\n{} {}", n, static_cast<double>(e.live[n]) / 1e6,
                            e.kernels[n].operation, e.kernels[n].scope)));
  }
  return text + bottom_axis(across, kHeight - kBottom, "nodes in the order of execution") + "</svg>\n";
}

std::string arena_picture(const Explanation& e) {
  constexpr double kHeight = 340;
  const auto nodes = static_cast<double>(std::max<size_t>(e.live.size(), 1));
  const Axis across{0, nodes, kLeft, kWidth - kRight},
      up{0, std::max(static_cast<double>(e.arena_bytes) / 1e6, 1e-6), kHeight - kBottom, kTop};
  std::string text = svg_begin(kHeight, "places and lifetimes in the arena") + left_axis(up, "offset, MB");
  for (const Explanation::Value& value : e.values) {
    const double x = across.place(value.first), y = up.place(static_cast<double>(value.offset + value.bytes) / 1e6);
    const Explanation::Kernel& maker = e.kernels[value.node];
    text += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" fill-opacity=\"0.55\" "
        "stroke=\"#fff\" "
        "stroke-width=\"0.3\"><title>{}</title></rect>\n",
        x, y, std::max(0.5, across.place(value.last + 1) - x),
        std::max(0.4, up.place(static_cast<double>(value.offset) / 1e6) - y), color_of(maker),
        escaped(fmt::format("{}: {:.3f} MB at {}, nodes {} to {}\n{} {}", value.name,
                            static_cast<double>(value.bytes) / 1e6, value.offset, value.first, value.last,
                            maker.operation, maker.scope)));
  }
  return text + bottom_axis(across, kHeight - kBottom, "nodes in the order of execution") + "</svg>\n";
}

std::string roofline_picture(const Explanation& e) {
  constexpr double kHeight = 380;
  double low_x = 0.05, high_x = 100, low_y = 1e9, high_y = 1e10;
  for (const Explanation::Kernel& k : e.kernels) {
    if (k.operations <= 0 || k.bytes <= 0 || k.seconds <= 0) continue;
    low_x = std::min(low_x, k.operations / k.bytes / 1.5), high_x = std::max(high_x, k.operations / k.bytes * 1.5);
    low_y = std::min(low_y, k.operations / k.seconds / 1.5), high_y = std::max(high_y, k.operations / k.seconds * 1.5);
  }
  for (const Limits::Products& products : e.limits.products) high_y = std::max(high_y, products.rate * 1.5);
  low_y = std::max(low_y, high_y * 1e-6);
  const Axis across{low_x, high_x, kLeft, kWidth - kRight, true}, up{low_y, high_y, kHeight - kBottom, kTop, true};
  std::string text = svg_begin(kHeight, "roofline");
  for (double x = std::pow(10, std::ceil(std::log10(low_x))); x <= high_x; x *= 10) {
    text += line(across.place(x), kTop, across.place(x), up.from, "grid");
    text += text_at(across.place(x), up.from + 16, fmt::format("{:g}", x));
  }
  for (double y = std::pow(10, std::ceil(std::log10(low_y))); y <= high_y; y *= 10) {
    text += line(kLeft, up.place(y), kWidth - kRight, up.place(y), "grid");
    text += text_at(kLeft - 6, up.place(y) + 4, fmt::format("{:g}", y * 1e-9), "end");
  }
  text += text_at((kLeft + kWidth - kRight) / 2, kHeight - 4, "FLOP/byte");
  text += fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>\n",
                      (up.from + up.to) / 2);
  for (const Limits::Products& products : e.limits.products) {
    const double ridge = e.limits.bandwidth > 0 ? std::clamp(products.rate / e.limits.bandwidth, low_x, high_x) : low_x;
    const double low = std::clamp(e.limits.bandwidth * low_x, low_y, high_y),
                 start = e.limits.bandwidth > 0 ? low / e.limits.bandwidth : low_x;
    text += line(across.place(std::clamp(start, low_x, ridge)), up.place(low), across.place(ridge),
                 up.place(products.rate), "roof");
    text += line(across.place(ridge), up.place(products.rate), across.to, up.place(products.rate), "roof");
    text += text_at(across.to - 4, up.place(products.rate) - 5,
                    fmt::format("{} {:.0f} GFLOP/s", name_of(products.dtype), products.rate * 1e-9), "end");
  }
  for (const Explanation::Kernel& k : e.kernels) {
    if (k.operations <= 0 || k.bytes <= 0 || k.seconds <= 0) continue;
    const double share = k.seconds / std::max(e.kernel_seconds, 1e-12);
    text +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" fill-opacity=\"0.6\">{}</circle>\n",
                    across.place(k.operations / k.bytes), up.place(std::max(k.operations / k.seconds, low_y)),
                    2 + std::sqrt(share) * 26, color_of(k), title_of(e, k));
  }
  return text + "</svg>\n";
}

}  // namespace transom
