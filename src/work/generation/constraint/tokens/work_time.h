// SPDX-License-Identifier: Apache-2.0
// How long the search for tokens may work before it lets others go on.
#pragma once

#include <cstddef>

namespace transom::constraint {

// The processor's time that this thread has taken.
double thread_seconds();

class WorkTime {
 public:
  // From now on, of the time of the thread that asks. Some work is always done, so that each turn comes further.
  explicit WorkTime(double seconds) : until_(thread_seconds() + seconds) {}
  // Whether it is over behind another piece of work; the cost of a node of a trie is 1. The clock is looked at now and
  // then, since that costs more than most pieces.
  bool is_over(size_t cost) {
    spent_ += cost;
    if (spent_ < kBetweenLooks) return false;
    spent_ = 0;
    return thread_seconds() >= until_;
  }
  // Of a set of so many places that is found behind another.
  static size_t cost_of_set(size_t places) { return 32 + 8 * places; }

 private:
  static constexpr size_t kBetweenLooks = 1024;
  double until_;
  size_t spent_ = 0;
};

}  // namespace transom::constraint
