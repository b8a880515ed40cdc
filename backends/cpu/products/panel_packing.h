// SPDX-License-Identifier: Apache-2.0
// From the rows of a weight [N, K], as checkpoints store them, to a panel [K, width] of `width` of its rows. A server's
// first answer waits until all weights have gone through this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace transom::cpu {

// A square of numbers that fills registers of 16 bytes is turned within them.
template <typename T>
struct RegisterSquare {
  static constexpr int64_t kSize = 16 / static_cast<int64_t>(sizeof(T));
  typedef T Row __attribute__((vector_size(16)));

  template <size_t... i>
  static Row low(Row a, Row b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (i / 2 + (i % 2) * kSize)...);
  }
  template <size_t... i>
  static Row high(Row a, Row b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (i / 2 + kSize / 2 + (i % 2) * kSize)...);
  }

  // to [c, r] = from [r, c]. Each round interleaves row r with row r + kSize / 2, which moves each number one bit to
  // the left in (r, c), so that rows have become columns after all bits of one of them.
  static void turn(const T* from, int64_t from_row, T* to, int64_t to_row) {
    constexpr auto kIndices = std::make_index_sequence<static_cast<size_t>(kSize)>();
    Row rows[kSize], next[kSize];
    for (int64_t r = 0; r < kSize; ++r) std::memcpy(&rows[r], from + r * from_row, sizeof(Row));
    for (int64_t bits = 1; bits < kSize; bits *= 2) {
      for (int64_t r = 0; r < kSize / 2; ++r) {
        next[2 * r] = low(rows[r], rows[r + kSize / 2], kIndices);
        next[2 * r + 1] = high(rows[r], rows[r + kSize / 2], kIndices);
      }
      std::copy_n(next, kSize, rows);
    }
    for (int64_t r = 0; r < kSize; ++r) std::memcpy(to + r * to_row, &rows[r], sizeof(Row));
  }
};

// to [depth, width] = from [width, depth] with rows `from_row` numbers apart; `there` of the rows are, others are
// zeros.
template <typename T>
void pack_rows_as_panel(const T* from, int64_t from_row, int64_t there, int64_t depth, int64_t width, T* to) {
  using Square = RegisterSquare<T>;
  constexpr int64_t kSize = Square::kSize, kLine = 64 / static_cast<int64_t>(sizeof(T));
  // A line of the first cache of a few rows at a time: rows often lie a multiple of 4 KiB apart, where the cache holds
  // no more of them than it has ways.
  const int64_t whole_rows = there / kSize * kSize, whole_depth = depth / kSize * kSize;
  for (int64_t line = 0; line < whole_depth; line += kLine)
    for (int64_t row = 0; row < whole_rows; row += kSize)
      for (int64_t i = line; i < std::min(line + kLine, whole_depth); i += kSize)
        Square::turn(from + row * from_row + i, from_row, to + i * width + row, width);
  for (int64_t row = 0; row < width; ++row)
    for (int64_t i = row < whole_rows ? whole_depth : 0; i < depth; ++i) {
      T number{};
      if (row < there) std::memcpy(&number, from + row * from_row + i, sizeof number);  // words of 2 numbers of 16 bits
      to[i * width + row] = number;
    }
}

// The upper halves of f32 numbers; the lower halves of all, or-ed.
inline uint32_t take_upper_halves(const float* from, int64_t count, uint16_t* to) {
  constexpr int64_t kTogether = 16;
  uint32_t lower[kTogether] = {}, numbers[kTogether];
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    uint16_t halves[kTogether];
    std::memcpy(numbers, from + i, sizeof numbers);
    for (int64_t j = 0; j < kTogether; ++j) lower[j] |= numbers[j], halves[j] = static_cast<uint16_t>(numbers[j] >> 16);
    std::memcpy(to + i, halves, sizeof halves);
  }
  uint32_t all = 0;
  for (const uint32_t some : lower) all |= some;
  for (; i < count; ++i) {
    std::memcpy(numbers, from + i, sizeof(float));
    all |= numbers[0];
    to[i] = static_cast<uint16_t>(numbers[0] >> 16);
  }
  return all & 0xFFFF;
}

}  // namespace transom::cpu
