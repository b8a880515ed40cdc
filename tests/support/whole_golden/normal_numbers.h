// SPDX-License-Identifier: Apache-2.0
// The numbers that torch.Tensor.normal_() draws (PyTorch with AVX2, 16 elements or more), to the bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace transom::golden {

// Of numbers in (0, 1], as Cephes' logf computes it, compiled with fused multiplications.
inline float logarithm(float x) {
  int whole = 0;
  x = std::frexp(x, &whole);
  auto exponent = static_cast<float>(whole);
  const bool small = x < 0.707106781186547524f;
  exponent -= small ? 1.0f : 0.0f;
  x = (x - 1.0f) + (small ? x : 0.0f);
  const float square = x * x;
  float y = 7.0376836292e-2f;
  for (const float term : {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                           2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f})
    y = std::fma(y, x, term);
  y = std::fma(y * x, square, exponent * -2.12194440e-4f);
  y = y - square * 0.5f;
  return (x + y) + exponent * 0.693359375f;
}

struct CosineAndSine {
  float cosine, sine;
};

// Of numbers in [0, 2 pi], as Cephes' sincosf computes them, compiled with fused multiplications.
inline CosineAndSine cosine_and_sine(float x) {
  const int octant = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  const auto y = static_cast<float>(octant);
  x = x + y * -0.78515625f;
  x = x + y * -2.4187564849853515625e-4f;
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float cosine = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  cosine = std::fma(cosine, z, 4.166664568298827e-2f) * z;
  cosine = std::fma(cosine, z, -(z * 0.5f)) + 1.0f;
  float sine = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  sine = std::fma(sine, z, -1.6666654611e-1f) * z;
  sine = std::fma(sine, x, x);
  const bool swapped = (octant & 2) != 0;
  const float a = swapped ? sine : cosine, b = swapped ? cosine : sine;
  return {((octant - 2) & 4) != 0 ? a : -a, (octant & 4) != 0 ? -b : b};
}

// The generator of a seed: its 32-bit words, as uniform numbers in [0, 1).
class UniformNumbers {
 public:
  explicit UniformNumbers(uint32_t seed) : engine_(seed) {}
  float at(size_t place) {
    while (numbers_.size() <= place) numbers_.push_back(static_cast<float>(engine_() & 0xFFFFFFu) * 0x1p-24f);
    return numbers_[place];
  }

 private:
  std::mt19937 engine_;
  std::vector<float> numbers_;
};

// The numbers of a block of 16 that is drawn from `place` on.
inline void draw_block(UniformNumbers& uniform, size_t place, float* block) {
  for (size_t j = 0; j < 8; ++j) {
    const float radius = std::sqrt(-2.0f * logarithm(1.0f - uniform.at(place + j)));
    const CosineAndSine angle = cosine_and_sine(6.283185307179586f * uniform.at(place + j + 8));
    block[j] = radius * angle.cosine;
    block[j + 8] = radius * angle.sine;
  }
}

// Blocks of 16. Where the last is not full, 16 new numbers end the tensor, or, where it is cut, are left out.
inline std::vector<float> normal_numbers(UniformNumbers& uniform, size_t place, size_t count, bool cut) {
  std::vector<float> numbers((count + 15) / 16 * 16);
  const size_t full = cut ? numbers.size() : count / 16 * 16;
  for (size_t i = 0; i < full; i += 16) draw_block(uniform, place + i, numbers.data() + i);
  if (full < count) draw_block(uniform, place + count, numbers.data() + count - 16);
  numbers.resize(count);
  return numbers;
}

}  // namespace transom::golden
