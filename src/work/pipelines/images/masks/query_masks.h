// SPDX-License-Identifier: Apache-2.0
// Segments of a picture by queries that each tell a class and a mask, as Transformers' processors make them of what
// such models give. Q queries, C classes, of which the last one of C + 1 is none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transom/tasks.h"

namespace transom {

// What a model says of a picture of these extents.
struct QueryMasks {
  std::span<const float> logits;  // [Q, C + 1]
  std::span<const float> masks;   // [Q, h, w]: logits of pixels
  int64_t queries = 0, classes = 0, h = 0, w = 0;
  int64_t height = 0, width = 0;
};

struct QuerySegment {
  int64_t label = 0;
  std::optional<double> score;
  Picture mask;  // gray, of the extents of the picture: 255 where the segment is
};

struct QueryThresholds {
  double score = 0.9;       // that a query needs
  double pixel = 0.5;       // the chance that a pixel needs, to be counted as the query's
  double left_of_it = 0.5;  // the part of these pixels that has to be left by the queries above
};

// No two segments overlap: each pixel is of the query that is the surest of it.
std::vector<QuerySegment> panoptic_segments(const QueryMasks& found, const QueryThresholds& thresholds);
// Objects, of as many pairs of a query and a class as there are queries; where they overlap the later ones are above.
// Their scores are also how sure the pixels are.
std::vector<QuerySegment> instance_segments(const QueryMasks& found, double least_score);
// The classes that some pixel has, in the order of their numbers.
std::vector<QuerySegment> semantic_segments(const QueryMasks& found);

}  // namespace transom
