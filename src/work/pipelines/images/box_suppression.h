// SPDX-License-Identifier: Apache-2.0
// Which of many boxes over the same objects are kept.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

struct ScoredBox {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;
  int64_t label = 0;
};

// The boxes in the order of their scores, without those that cover one before them by more than `most_overlap` (the
// intersection over the union), of the same label or, with `all_labels`, of any; `most` at most.
std::vector<ScoredBox> without_overlaps(std::vector<ScoredBox> boxes, double most_overlap, bool all_labels,
                                        size_t most);

}  // namespace transom
