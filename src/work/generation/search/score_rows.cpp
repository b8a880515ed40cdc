// SPDX-License-Identifier: Apache-2.0
#include "work/generation/search/score_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

namespace transom {
namespace {

// Vectors of the compiler (GCC and clang), since neither makes them of such loops by itself at -O2.
constexpr size_t kLanes = 4;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Integers __attribute__((vector_size(kLanes * sizeof(float))));

inline Floats load(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline Floats all(float x) { return Floats{} + x; }

// exp(x) of x <= 0: 2^n times a polynomial of what remains in [-ln 2 / 2, ln 2 / 2] (Cody and Waite's reduction).
inline Floats exponential(Floats x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 2^23: what is added to it becomes an integer
  x = x < -87.0f ? all(-87.0f) : x;
  const Floats shifted = x * kLog2e + kRound, n = shifted - kRound;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Integers power = ((Integers)shifted - std::bit_cast<int32_t>(kRound) + 127) << 23;
  return p * (Floats)power;
}

}  // namespace

float highest_of(std::span<const float> scores) {
  Floats lanes[4];
  for (Floats& lane : lanes) lane = all(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + 4 * kLanes <= scores.size(); i += 4 * kLanes)
    for (size_t j = 0; j < 4; ++j) {
      const Floats x = load(&scores[i + j * kLanes]);
      lanes[j] = x > lanes[j] ? x : lanes[j];
    }
  float highest = -std::numeric_limits<float>::infinity();
  for (const Floats& lane : lanes)
    for (size_t j = 0; j < kLanes; ++j) highest = std::max(highest, lane[j]);
  for (; i < scores.size(); ++i) highest = scores[i] > highest ? scores[i] : highest;
  return highest;
}

bool holds_nan(std::span<const float> scores) {
  Integers found[4] = {};
  size_t i = 0;
  for (; i + 4 * kLanes <= scores.size(); i += 4 * kLanes)
    for (size_t j = 0; j < 4; ++j) {
      const Floats x = load(&scores[i + j * kLanes]);
      found[j] |= x != x;
    }
  const Integers all_found = found[0] | found[1] | found[2] | found[3];
  for (size_t j = 0; j < kLanes; ++j)
    if (all_found[j]) return true;
  return std::any_of(scores.begin() + static_cast<ptrdiff_t>(i), scores.end(), [](float x) { return std::isnan(x); });
}

size_t place_of(std::span<const float> scores, float score) {
  size_t i = 0;
  for (; i + 4 * kLanes <= scores.size(); i += 4 * kLanes) {
    Integers found = {};
    for (size_t j = 0; j < 4; ++j) found |= load(&scores[i + j * kLanes]) == score;
    if (found[0] | found[1] | found[2] | found[3]) break;
  }
  while (i < scores.size() && scores[i] != score) ++i;
  return i;
}

double sum_of_exponentials(std::span<const float> scores, float highest) {
  // Sums of so few terms are added in f32 that nothing is lost of 2e-7.
  constexpr size_t kPiece = 64 * kLanes;
  double sum = 0;
  size_t i = 0;
  for (; i + kPiece <= scores.size(); i += kPiece) {
    Floats sums[4] = {};
    for (size_t j = 0; j < kPiece; j += 4 * kLanes)
      for (size_t k = 0; k < 4; ++k) sums[k] += exponential(load(&scores[i + j + k * kLanes]) - highest);
    const Floats four = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    sum += static_cast<double>((four[0] + four[1]) + (four[2] + four[3]));
  }
  for (; i < scores.size(); ++i) sum += static_cast<double>(exponential(all(scores[i]) - highest)[0]);
  return sum;
}

std::optional<std::vector<size_t>> clearly_highest(std::span<const float> scores, size_t count) {
  if (count == 0 || count >= scores.size()) return std::nullopt;
  // One more than is wanted: whether the last one that is has an equal outside.
  std::vector<size_t> places;
  float least = -std::numeric_limits<float>::infinity();
  bool equal = false;
  const auto take = [&](size_t place) {
    if (places.size() > count && scores[place] <= least) return;
    const auto at = std::upper_bound(places.begin(), places.end(), place,
                                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    places.insert(at, place);
    if (places.size() > count + 1) places.pop_back();
    if (places.size() > count) least = scores[places.back()];
  };
  constexpr size_t kBlock = 16;
  for (size_t begin = 0; begin < scores.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, scores.size());
    const std::span<const float> block = scores.subspan(begin, end - begin);
    // A NaN is not at most anything.
    bool any_above = false;
    if (block.size() == kBlock) {
      Integers above = {};
      for (size_t j = 0; j < kBlock; j += kLanes) above |= ~(load(&block[j]) <= least);
      any_above = (above[0] | above[1] | above[2] | above[3]) != 0;
    } else {
      for (const float score : block) any_above |= !(score <= least);
    }
    if (!any_above && places.size() > count) continue;
    for (const float score : block)
      if (std::isnan(score)) return std::nullopt;
    for (size_t place = begin; place < end; ++place) take(place);
  }
  for (size_t i = 1; i < places.size(); ++i) equal |= scores[places[i]] == scores[places[i - 1]];
  if (equal) return std::nullopt;
  places.resize(count);
  return places;
}

std::vector<std::pair<int64_t, float>> likeliest(std::span<const float> scores, int64_t count) {
  const size_t kept = std::min(static_cast<size_t>(std::max<int64_t>(count, 0)), scores.size());
  if (kept == 0) return {};
  std::optional<std::vector<size_t>> places = clearly_highest(scores, kept);
  if (!places) {
    places.emplace(scores.size());
    std::iota(places->begin(), places->end(), size_t{0});
    const auto comes_first = [&](size_t a, size_t b) {
      if (std::isnan(scores[a]) || std::isnan(scores[b])) return !std::isnan(scores[a]) && std::isnan(scores[b]);
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    };
    std::partial_sort(places->begin(), places->begin() + static_cast<ptrdiff_t>(kept), places->end(), comes_first);
    places->resize(kept);
  }
  std::vector<std::pair<int64_t, float>> result;
  for (const size_t place : *places) result.emplace_back(static_cast<int64_t>(place), scores[place]);
  return result;
}

}  // namespace transom
