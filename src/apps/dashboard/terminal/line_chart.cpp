// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/terminal/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace transom::dashboard {
namespace {

constexpr size_t kLabelWidth = 9;

// A grid of dots; (0, 0) is at the top left.
class DotCanvas {
 public:
  DotCanvas(size_t columns, size_t rows, bool unicode)
      : across_(unicode ? 2 : 1), down_(unicode ? 4 : 1), columns_(columns), rows_(rows), cells_(columns * rows, 0) {}
  size_t width() const { return columns_ * across_; }
  size_t height() const { return rows_ * down_; }

  void set(size_t x, size_t y) {
    // The bits of U+2800: the left column is 1, 2, 4, 64, the right one 8, 16, 32, 128.
    static constexpr unsigned char kBits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x >= width() || y >= height()) return;
    cells_[(y / down_) * columns_ + x / across_] |= across_ == 2 ? kBits[y % 4][x % 2] : 1;
  }

  void line(double x0, double y0, double x1, double y1) {
    const double length = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1.0});
    for (double i = 0; i <= length; ++i)
      set(static_cast<size_t>(std::lround(x0 + (x1 - x0) * i / length)),
          static_cast<size_t>(std::lround(y0 + (y1 - y0) * i / length)));
  }

  std::string row(size_t y) const {
    std::string text;
    for (size_t x = 0; x < columns_; ++x) {
      const unsigned char cell = cells_[y * columns_ + x];
      if (across_ == 1 || cell == 0) {
        text += cell ? '*' : ' ';
        continue;
      }
      text += '\xe2';  // U+2800 + cell in UTF-8
      text += static_cast<char>(0xa0 + (cell >> 6));
      text += static_cast<char>(0x80 + (cell & 63));
    }
    return text;
  }

 private:
  size_t across_, down_, columns_, rows_;
  std::vector<unsigned char> cells_;
};

std::string label(double value) { return fmt::format("{:.4g}", value); }

// The means of the points that share a column of dots, by their column.
std::vector<std::pair<double, double>> columns_of(const std::vector<Point>& points, size_t width) {
  const double first = static_cast<double>(points.front().step), last = static_cast<double>(points.back().step);
  const double scale = last > first ? static_cast<double>(width - 1) / (last - first) : 0;
  std::vector<std::pair<double, double>> columns;
  double sum = 0;
  size_t count = 0;
  for (const Point& point : points) {
    const double x = std::round((static_cast<double>(point.step) - first) * scale);
    if (columns.empty() || columns.back().first != x) {
      columns.emplace_back(x, 0);
      sum = 0, count = 0;
    }
    sum += point.value, ++count;
    columns.back().second = sum / static_cast<double>(count);
  }
  return columns;
}

}  // namespace

std::string fitted(std::string_view text, size_t width) {
  std::string result;
  size_t count = 0;
  for (size_t i = 0; i < text.size() && count < width; ++count) {
    const auto byte = static_cast<unsigned char>(text[i]);
    size_t length = byte < 0x80 ? 1 : byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
    for (size_t k = 1; k < length; ++k)
      if (i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) length = 0;
    // U+0080 to U+009F are control characters of terminals, too.
    const bool control =
        byte < 0x20 || byte == 0x7f || (byte == 0xc2 && length == 2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (length == 0 || byte >= 0xf5 || control) result += '?';
    else result += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return result + std::string(width - count, ' ');
}

std::vector<std::string> line_chart(const Series& series, const ChartStyle& style) {
  const auto& points = series.points();
  std::string title = series.name();
  if (!points.empty()) title += "  " + label(points.back().value);
  std::vector<std::string> lines{fitted(title, style.width)};
  if (style.width < 20 || style.height < 5 || points.empty()) {
    while (lines.size() < style.height) lines.push_back(fitted("", style.width));
    lines.resize(std::max<size_t>(style.height, 1));
    return lines;
  }
  DotCanvas canvas(style.width - kLabelWidth - 1, style.height - 2, style.unicode);
  const auto columns = columns_of(points, canvas.width());
  double low = columns[0].second, high = low;
  for (const auto& [x, y] : columns) low = std::min(low, y), high = std::max(high, y);
  const double bottom = static_cast<double>(canvas.height() - 1);
  const auto place = [&](double y) { return high > low ? (high - y) / (high - low) * bottom : bottom / 2; };
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& [x, y] = columns[i];
    const auto& [x0, y0] = columns[i == 0 ? 0 : i - 1];
    canvas.line(x0, place(y0), x, place(y));
  }
  const size_t rows = style.height - 2;
  for (size_t y = 0; y < rows; ++y) {
    const std::string text = y == 0 && high > low           ? label(high)
                             : y + 1 == rows && high > low  ? label(low)
                             : high == low && y == rows / 2 ? label(low)
                                                            : "";
    lines.push_back(fmt::format("{:>{}}{}{}", text.substr(0, kLabelWidth), kLabelWidth,
                                style.unicode ? "\xe2\x94\x82" : "|", canvas.row(y)));
  }
  const std::string first = std::to_string(points.front().step), last = std::to_string(points.back().step);
  const size_t room = style.width - kLabelWidth - 1;
  std::string steps(kLabelWidth + 1, ' ');
  steps += first;
  if (first.size() + last.size() + 1 < room) steps += std::string(room - first.size() - last.size(), ' ') + last;
  lines.push_back(fitted(steps, style.width));
  return lines;
}

}  // namespace transom::dashboard
