// SPDX-License-Identifier: Apache-2.0
// Which tile holds which elements of a tensor.
#include <algorithm>

#include "simulator/model.h"

namespace ipu_emulator {
namespace {

constexpr size_t kMostRuns = 1 << 16;  // a tensor of more is told by its first elements

// Runs that touch and have one tile are one.
void add_run(std::vector<Run>& runs, uint64_t begin, uint64_t end, uint32_t tile) {
  if (begin == end) return;
  if (!runs.empty() && runs.back().end == begin && runs.back().tile == tile && !runs.back().repeated)
    runs.back().end = end;
  else runs.push_back({begin, end, tile});
}

}  // namespace

Layout layout_of(const poplar::Tensor& tensor) {
  const View& view = tensor.view();
  const auto graph = view.graph.lock();
  Layout layout;
  for_each_row(view, [&](uint64_t first, uint32_t variable, uint64_t element, uint64_t count, int64_t step) {
    if (!layout.exact) return;
    if (layout.runs.size() > kMostRuns) {
      layout.exact = false;
      return;
    }
    const auto& runs = *graph->variables[variable].runs;
    const auto tile_at = [&](uint64_t at) {
      return std::prev(std::upper_bound(runs.begin(), runs.end(), at,
                                        [](uint64_t value, const Run& run) { return value < run.begin; }));
    };
    if (step == 1) {
      auto run = tile_at(element);
      for (uint64_t i = 0; i < count; ++run) {
        const uint64_t length = std::min(count - i, run->end - (element + i));
        add_run(layout.runs, first + i, first + i + length, run->tile);
        i += length;
      }
    } else if (step == 0) {
      if (count) layout.runs.push_back({first, first + count, tile_at(element)->tile, count > 1});
    } else {
      for (uint64_t i = 0; i < count && layout.runs.size() <= kMostRuns; ++i)
        add_run(layout.runs, first + i, first + i + 1, tile_at(element + i * static_cast<uint64_t>(step))->tile);
    }
  });
  if (!layout.exact) {
    const Run& first = layout.runs.front();
    layout.runs = {{0, view.elements(), first.tile}};
  }
  return layout;
}

}  // namespace ipu_emulator
