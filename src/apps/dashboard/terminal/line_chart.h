// SPDX-License-Identifier: Apache-2.0
// A curve as lines of text: dots of braille characters, 2 by 4 in each place, or stars where only ASCII is shown.
#pragma once

#include <string>
#include <vector>

#include "apps/dashboard/monitor/series.h"

namespace transom::dashboard {

struct ChartStyle {
  size_t width = 40, height = 10;  // in characters, with the title, the labels of the y axis and those of the steps
  bool unicode = true;
};

// Exactly `height` lines of `width` characters. Where several points share a column their mean is drawn. Smaller than
// 20 by 5 characters only the title is shown.
std::vector<std::string> line_chart(const Series& series, const ChartStyle& style);

// A text in exactly so many characters: cut, or filled up with spaces. Control characters become '?', and broken UTF-8
// one '?' a byte.
std::string fitted(std::string_view text, size_t width);

}  // namespace transom::dashboard
