// SPDX-License-Identifier: Apache-2.0
// What passes of so many tokens take, as they were measured.
#pragma once

#include <cstdint>
#include <map>

namespace transom {

class PassTimes {
 public:
  // The first pass of a size compiles its program and is not counted; longer ones count little, as whatever disturbs a
  // pass makes it longer.
  void note(int64_t tokens, double seconds);
  // Whether this size was measured, or sizes on both sides of it.
  bool knows(int64_t tokens) const;
  // Of sizes that were not met what lies between their neighbours; above all of these as little as the largest took, so
  // that a larger one is tried. 1 where nothing is known.
  double of(int64_t tokens) const;
  // Of one token more, by the smallest and the largest size.
  double of_one_more() const;

 private:
  struct Time {
    double seconds = 0;  // 0: the first pass alone was seen
  };
  std::map<int64_t, Time> times_;
};

}  // namespace transom
