// SPDX-License-Identifier: Apache-2.0
// How long a step looks for the tokens that constraints allow, and for whom.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "work/generation/engine/sequence.h"

namespace transom {

// A mask takes microseconds as a rule. Whoever has taken a token gets time for that; who needs more shares with others
// like it what a step has for them, in turns, and goes on in a later step. Which tokens are allowed, and so what a text
// says, does not depend on when they are found.
class MaskTurns {
 public:
  static constexpr double kSecondsAtFirst = 100e-6, kSecondsOfStep = 5e-3;
  // Before a step: what is still not known afterwards sits it out. True where that is so of any.
  bool take(std::span<const std::unique_ptr<Sequence>> sequences);

 private:
  size_t turn_ = 0;
};

}  // namespace transom
