// SPDX-License-Identifier: Apache-2.0
// How many tokens a step takes, so that texts that are being written do not wait long for those that are being read.
#pragma once

#include <cstdint>

namespace transom {

// Learns while steps run what a token costs: the time of a step is taken as in proportion to its tokens, which by and
// by is true near the size that comes out. What a text says does not depend on how its prompt was cut.
class StepBudget {
 public:
  // A step has at most `most` tokens; one that writes and reads takes about `seconds`, or one and a half times one that
  // only writes where that is longer. 0: as many tokens as there are.
  StepBudget(double seconds, int64_t most) : seconds_(seconds), most_(most) {}
  // Tokens of a step in which so many tokens are of texts that are being written: some more than these, and one of the
  // sizes of rounded_tokens where that is not `most`.
  int64_t tokens(int64_t writing) const;
  // A step had so many tokens and took so long.
  void note(int64_t writing, int64_t tokens, double seconds);

 private:
  double seconds_;
  int64_t most_;
  double token_ = 0;    // seconds of a token of a step that reads; 0: none has been seen
  double writing_ = 0;  // seconds of a step that only writes; 0: none has been seen
};

}  // namespace transom
