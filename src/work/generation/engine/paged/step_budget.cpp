// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/step_budget.h"

#include <algorithm>

#include "work/generation/engine/paged/step_shape.h"

namespace transom {
namespace {

constexpr int64_t kLeast = 8;  // tokens of prompts, so that they come to an end
constexpr double kTimesWriting = 1.5;
constexpr double kTimesWaiting = 2;
constexpr double kShare = 1.0 / 16;        // of the last step in the means
constexpr double kShareOfLong = 1.0 / 64;  // where it took longer than was expected
constexpr double kOrigin = 0.1;            // weight of no tokens in no time beside the steps: the line is never vague

}  // namespace

StepBudget::Line StepBudget::line() const {
  if (x_ <= 0) return {};
  constexpr double weight = 1 + kOrigin;
  const double token = (weight * xy_ - x_ * y_) / (weight * xx_ - x_ * x_);
  const double step = (y_ - token * x_) / weight;
  if (token > 0 && step >= 0) return {step, token};
  return {0, token > 0 ? xy_ / xx_ : y_ / x_};
}

int64_t StepBudget::tokens(int64_t writing, int64_t waiting) const {
  const Line known = line();
  if (seconds_ <= 0 || writing <= 0 || known.token <= 0) return most_;
  const auto written = static_cast<double>(writing);
  const double times = kTimesWriting + kTimesWaiting * static_cast<double>(waiting) / written;
  const double time = std::max(seconds_, times * (known.step + known.token * written));
  const double count = (time - known.step) / known.token;
  const int64_t least = std::min(writing + kLeast, most_);
  if (count >= static_cast<double>(most_)) return most_;
  return std::max(floor_tokens(static_cast<int64_t>(count)), least);
}

// What disturbs a step makes it longer, and the first of a shape compiles a program: long steps count little, short
// ones at once.
void StepBudget::note(int64_t tokens, double seconds) {
  if (tokens <= 0) return;
  const auto x = static_cast<double>(tokens);
  const Line known = line();
  const double expected = known.step + known.token * x;
  double share = 1;
  if (expected > 0 && seconds > expected) seconds = std::min(seconds, 4 * expected), share = kShareOfLong;
  else if (expected > 0) share = std::clamp(1 - seconds / expected, kShare, 0.5);
  for (double* mean : {&x_, &y_, &xx_, &xy_}) *mean *= 1 - share;
  x_ += share * x, y_ += share * seconds, xx_ += share * x * x, xy_ += share * x * seconds;
}

}  // namespace transom
