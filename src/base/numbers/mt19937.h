// SPDX-License-Identifier: Apache-2.0
// PyTorch's CPU random generator: the same numbers for the same seed, so that the order of samples, the masks of masked
// language modelling and initial weights can be laid over those of Transformers.
// Matsumoto and Nishimura, "Mersenne Twister" (1998); the distributions are those of ATen's CPU kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace transom {

class Mt19937 {
 public:
  // Only the low 32 bits of a seed reach the state, as in PyTorch.
  explicit Mt19937(uint64_t seed = 5489) { this->seed(seed); }
  void seed(uint64_t seed);

  uint32_t random();    // 32 random bits
  uint64_t random64();  // two draws, the first one on top

  // torch.empty((), dtype=int64).random_(): uniform over [0, 2^63). What RandomSampler and DataLoader seed themselves
  // with.
  int64_t random_int64() { return static_cast<int64_t>(random64() & (~uint64_t{0} >> 1)); }
  // torch.randint(high, ...): one of [0, high); `high` is at least 1.
  int64_t randint(int64_t high);
  // torch.randperm(n): the numbers [0, n) in random order.
  std::vector<int64_t> randperm(int64_t n);

  float uniform() { return static_cast<float>(random() & 0xFFFFFF) * 0x1p-24f; }  // [0, 1), float32
  double uniform64() {
    return static_cast<double>(random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }  // [0, 1), float64

  // Tensor.uniform_(low, high) of a float32 tensor.
  void fill_uniform(std::span<float> values, float low = 0, float high = 1);
  // Tensor.normal_(mean, deviation) of a float32 tensor. PyTorch draws 16 or more numbers in another way than fewer;
  // both ways are followed, to the last bits (its vectorised logarithm and cosine round differently).
  void fill_normal(std::span<float> values, float mean = 0, float deviation = 1);
  // The same of a tensor whose numbers do not lie in the order of its axes: PyTorch then draws one by one, however
  // many.
  void fill_normal_one_by_one(std::span<float> values);
  // torch.bernoulli of a float32 tensor of probabilities: one draw a value.
  bool bernoulli(float probability) { return uniform() < probability; }

  // All that is needed to go on where this generator stands, as numbers that JSON can hold.
  std::vector<uint64_t> state() const;
  void set_state(std::span<const uint64_t> state);

 private:
  static constexpr size_t kWords = 624;
  void refill();
  double normal();
  void fill_normal_16(float* values, float mean, float deviation);

  std::array<uint32_t, kWords> words_{};
  size_t next_ = kWords;
  std::optional<double> spare_normal_;  // Box-Muller makes two numbers at once
};

}  // namespace transom
