// SPDX-License-Identifier: Apache-2.0
// How many tokens a step takes, so that texts that are being written do not wait long for those that are being read.
#pragma once

#include <cstdint>

namespace transom {

// Learns while steps run what they cost: so much a step and so much a token, by the line through the steps before, of
// which the last ones count most. What a text says does not depend on how its prompt was cut.
class StepBudget {
 public:
  // A step has at most `most` tokens; one that writes and reads takes about `seconds`, or half more than one that only
  // writes where that is longer, and as much more as texts wait to be read for each that is written: where many wait,
  // short waits of the few make the waits of the many longer. 0: as many tokens as there are.
  StepBudget(double seconds, int64_t most) : seconds_(seconds), most_(most) {}
  // Tokens of a step in which so many tokens are of texts that are being written, and so many texts wait to be read:
  // some more than these, and one of the sizes of rounded_tokens where that is not `most`.
  int64_t tokens(int64_t writing, int64_t waiting) const;
  // A step had so many tokens and took so long.
  void note(int64_t tokens, double seconds);

 private:
  struct Line {
    double step = 0, token = 0;  // seconds; token 0: nothing is known
  };
  Line line() const;

  double seconds_;
  int64_t most_;
  double x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;  // means over steps: tokens x, seconds y
};

}  // namespace transom
