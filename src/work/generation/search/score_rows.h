// SPDX-License-Identifier: Apache-2.0
// Loops over the scores of a whole vocabulary, in vectors: each runs at every token, for every beam. Results are the
// same on all processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace transom {

// The largest score; scores that are NaN are passed over. -infinity where there is no other.
float highest_of(std::span<const float> scores);

bool holds_nan(std::span<const float> scores);

// The place of the first score that equals `score`; their count if there is none.
size_t place_of(std::span<const float> scores, float score);

// The sum of exp(score - highest), where no score is above `highest`; NaN if one of the differences is. Terms are
// within 2e-7 of exact, those below exp(-87) may count as that.
double sum_of_exponentials(std::span<const float> scores, float highest);

// The places of the `count` highest scores, falling; nothing where NaN or equal scores among them leave a choice.
std::optional<std::vector<size_t>> clearly_highest(std::span<const float> scores, size_t count);

// The places of the `count` highest scores with these, falling; of equal ones the first, NaN last.
std::vector<std::pair<int64_t, float>> likeliest(std::span<const float> scores, int64_t count);

}  // namespace transom
