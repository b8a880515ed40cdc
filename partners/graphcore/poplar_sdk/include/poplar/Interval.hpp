// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace poplar {

// Elements [begin, end).
class Interval {
 public:
  constexpr Interval() = default;
  constexpr Interval(size_t begin, size_t end) : begin_(begin), end_(end) {}
  constexpr size_t begin() const { return begin_; }
  constexpr size_t end() const { return end_; }
  constexpr size_t size() const { return end_ - begin_; }
  constexpr bool operator==(const Interval&) const = default;

 private:
  size_t begin_ = 0, end_ = 0;
};

}  // namespace poplar
