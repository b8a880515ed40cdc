// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/box_suppression.h"

#include <algorithm>

namespace transom {
namespace {

double area_of(const ScoredBox& box) {
  return static_cast<double>(std::max(box.right - box.left, 0.0f)) *
         static_cast<double>(std::max(box.bottom - box.top, 0.0f));
}

double overlap(const ScoredBox& a, const ScoredBox& b) {
  const ScoredBox both{std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                       std::min(a.bottom, b.bottom)};
  const double shared = area_of(both), all = area_of(a) + area_of(b) - shared;
  return all > 0 ? shared / all : 0;
}

}  // namespace

std::vector<ScoredBox> without_overlaps(std::vector<ScoredBox> boxes, double most_overlap, bool all_labels,
                                        size_t most) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const ScoredBox& a, const ScoredBox& b) { return a.score > b.score; });
  std::vector<ScoredBox> kept;
  for (const ScoredBox& box : boxes) {
    if (kept.size() >= most) break;
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const ScoredBox& other) {
      return (all_labels || other.label == box.label) && overlap(other, box) > most_overlap;
    });
    if (!covered) kept.push_back(box);
  }
  return kept;
}

}  // namespace transom
