// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/mt19937.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace transom {

void Mt19937::seed(uint64_t seed) {
  words_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  next_ = kWords;
  spare_normal_.reset();
}

void Mt19937::refill() {
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t mixed = (words_[i] & 0x80000000U) | (words_[(i + 1) % kWords] & 0x7FFFFFFFU);
    words_[i] = words_[(i + 397) % kWords] ^ (mixed >> 1) ^ ((mixed & 1) ? 0x9908B0DFU : 0);
  }
  next_ = 0;
}

uint32_t Mt19937::random() {
  if (next_ == kWords) refill();
  uint32_t y = words_[next_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680U;
  y ^= (y << 15) & 0xEFC60000U;
  return y ^ (y >> 18);
}

uint64_t Mt19937::random64() {
  const uint64_t high = random();
  return high << 32 | random();
}

int64_t Mt19937::randint(int64_t high) {
  const auto range = static_cast<uint64_t>(high);
  // A range that is large beside 2^32 would make the remainder of 32 bits uneven, so PyTorch draws 64 for it.
  return static_cast<int64_t>((range >= uint64_t{1} << 28 ? random64() : random()) % range);
}

std::vector<int64_t> Mt19937::randperm(int64_t n) {
  require(n >= 0, "randperm: expected a size of at least 0, found {}", n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (n < std::numeric_limits<uint32_t>::max() / 20) {
    for (int64_t i = 0; i < n - 1; ++i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + random() % (n - i))]);
  } else {  // 32 bits would be uneven; PyTorch then also goes the other way round
    for (int64_t i = 0; i < n; ++i)
      std::swap(order[static_cast<size_t>(i)], order[random64() % static_cast<uint64_t>(i + 1)]);
  }
  return order;
}

void Mt19937::fill_uniform(std::span<float> values, float low, float high) {
  for (float& value : values) value = uniform() * (high - low) + low;
}

double Mt19937::normal() {
  if (spare_normal_) return *std::exchange(spare_normal_, std::nullopt);
  const double angle = 2 * std::numbers::pi * uniform64();
  const double radius = std::sqrt(-2 * std::log1p(-uniform64()));
  spare_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

// Turns 16 uniform numbers into normal ones: the first eight give the radius, the others the angle (Box-Muller).
void Mt19937::fill_normal_16(float* values, float mean, float deviation) {
  for (int i = 0; i < 8; ++i) {
    const float radius = std::sqrt(-2 * std::log(1 - values[i]));
    const float angle = 2 * std::numbers::pi_v<float> * values[i + 8];
    values[i] = radius * std::cos(angle) * deviation + mean;
    values[i + 8] = radius * std::sin(angle) * deviation + mean;
  }
}

void Mt19937::fill_normal(std::span<float> values, float mean, float deviation) {
  if (values.size() < 16) {
    for (float& value : values) value = static_cast<float>(normal() * deviation + mean);
    return;
  }
  fill_uniform(values);
  for (size_t i = 0; i + 16 <= values.size(); i += 16) fill_normal_16(&values[i], mean, deviation);
  if (values.size() % 16 != 0) {  // the last 16 are drawn anew rather than a shorter group made
    const auto last = values.last(16);
    fill_uniform(last);
    fill_normal_16(last.data(), mean, deviation);
  }
}

void Mt19937::fill_normal_one_by_one(std::span<float> values) {
  for (float& value : values) value = static_cast<float>(normal());
}

std::vector<uint64_t> Mt19937::state() const {
  std::vector<uint64_t> state(words_.begin(), words_.end());
  state.push_back(next_);
  if (spare_normal_) state.push_back(std::bit_cast<uint64_t>(*spare_normal_));
  return state;
}

void Mt19937::set_state(std::span<const uint64_t> state) {
  require((state.size() == kWords + 1 || state.size() == kWords + 2) && state[kWords] <= kWords,
          "random state: expected {} words, a position and perhaps one spare number, found {} numbers", kWords,
          state.size());
  for (size_t i = 0; i < kWords; ++i) words_[i] = static_cast<uint32_t>(state[i]);
  next_ = state[kWords];
  spare_normal_.reset();
  if (state.size() == kWords + 2) spare_normal_ = std::bit_cast<double>(state[kWords + 1]);
}

}  // namespace transom
