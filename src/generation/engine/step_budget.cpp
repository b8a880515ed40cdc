// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/step_budget.h"

#include <algorithm>

#include "generation/engine/step_shape.h"

namespace transom {
namespace {

constexpr int64_t kLeast = 8;  // tokens of prompts, so that they come to an end
constexpr double kTimesWriting = 1.5;

// What disturbs a step makes it longer, and the first of a shape compiles a program: short steps count at once.
double follow(double known, double seen) {
  if (known <= 0) return seen;
  if (seen < known) return (known + seen) / 2;
  return known + (std::min(seen, 4 * known) - known) / 8;
}

}  // namespace

int64_t StepBudget::tokens(int64_t writing) const {
  if (seconds_ <= 0 || writing <= 0 || token_ <= 0) return most_;
  const double count = std::max(seconds_, kTimesWriting * writing_) / token_;
  const int64_t least = std::min(writing + kLeast, most_);
  if (count >= static_cast<double>(most_)) return most_;
  return std::max(floor_tokens(static_cast<int64_t>(count)), least);
}

void StepBudget::note(int64_t writing, int64_t tokens, double seconds) {
  if (tokens <= 0) return;
  if (tokens > writing) token_ = follow(token_, seconds / static_cast<double>(tokens));
  else writing_ = follow(writing_, seconds);
}

}  // namespace transom
