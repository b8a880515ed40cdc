// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/enlarged_map.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/threads.h"

namespace transom {

std::vector<EnlargedMaps::Tap> EnlargedMaps::taps(int64_t from, int64_t to) {
  std::vector<Tap> taps;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = std::max(0.0f, (static_cast<float>(i) + 0.5f) * scale - 0.5f);
    const int64_t first = std::min(static_cast<int64_t>(place), from - 1);
    taps.push_back({first, std::min(first + 1, from - 1), place - static_cast<float>(first)});
  }
  return taps;
}

EnlargedMaps::EnlargedMaps(std::span<const float> values, int64_t maps, int64_t h, int64_t w, int64_t height,
                           int64_t width)
    : values_(values), maps_(maps), h_(h), w_(w), down_(taps(h, height)), across_(taps(w, width)) {
  if (maps < 1 || h < 1 || w < 1 || static_cast<int64_t>(values.size()) != maps * h * w)
    fail(ErrorKind::kInternal, "{} values are no {} maps of {} x {}", values.size(), maps, h, w);
}

void EnlargedMaps::line(int64_t c, int64_t y, std::span<float> out) const {
  const Tap& down = down_[static_cast<size_t>(y)];
  const float* upper = values_.data() + (c * h_ + down.first) * w_;
  const float* lower = values_.data() + (c * h_ + down.second) * w_;
  for (size_t x = 0; x < across_.size(); ++x) {
    const Tap& tap = across_[x];
    const float left = 1 - tap.weight, above = 1 - down.weight;
    out[x] = above * (left * upper[tap.first] + tap.weight * upper[tap.second]) +
             down.weight * (left * lower[tap.first] + tap.weight * lower[tap.second]);
  }
}

std::vector<int32_t> largest_maps(const EnlargedMaps& maps) {
  const auto width = static_cast<size_t>(maps.width());
  std::vector<int32_t> largest(width * static_cast<size_t>(maps.height()), 0);
  parallel_for(static_cast<size_t>(maps.height()), [&](size_t y) {
    std::vector<float> most(width), line(width);
    maps.line(0, static_cast<int64_t>(y), most);
    for (int64_t c = 1; c < maps.maps(); ++c) {
      maps.line(c, static_cast<int64_t>(y), line);
      for (size_t x = 0; x < width; ++x)
        if (line[x] > most[x]) most[x] = line[x], largest[y * width + x] = static_cast<int32_t>(c);
    }
  });
  return largest;
}

}  // namespace transom
