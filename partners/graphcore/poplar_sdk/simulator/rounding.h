// SPDX-License-Identifier: Apache-2.0
// How the results of one operation become half: to nearest, or by the noise of the machine where a program asked for
// it.
#pragma once

#include "simulator/half.h"
#include "simulator/model.h"

namespace ipu_emulator {

// Of one run of one operation: the noise of each is another one, and the same ones where a program runs again from the
// same seed.
class Rounding {
 public:
  explicit Rounding(Memory& memory)
      : stochastic_(memory.stochastic_rounding),
        state_(stochastic_ ? scrambled(memory.seed + scrambled(++memory.draws)) : 0) {}

  uint16_t operator()(float value) {
    if (!stochastic_) return to_half(value);
    state_ += 0x9e3779b97f4a7c15;
    return to_half_stochastic(value, static_cast<uint32_t>(scrambled(state_) >> 32));
  }

 private:
  // The last steps of splitmix64.
  static uint64_t scrambled(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }

  bool stochastic_;
  uint64_t state_;
};

}  // namespace ipu_emulator
