// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/ggml/ggml_points.h"

#include <bit>
#include <cstring>

#include "base/numbers/half_bits.h"
#include "files/blocks/ggml/ggml_grids.h"

namespace transom {

const std::vector<float> kIq2Values = {8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0};
const std::vector<float> kIq3XxsValues = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
const std::vector<float> kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
// Eight times -1, 0 or 1, with an eighth more or less.
const std::vector<float> kIq1Values = {-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0};

namespace {

template <typename T>
T word_at(const uint8_t* at) {
  T word;
  std::memcpy(&word, at, sizeof(T));
  return word;
}

float scale_at(const uint8_t* at) { return float_of_half(word_at<uint16_t>(at)); }

// Of eight signs seven are stored: an even number of them is negative.
uint32_t eight_signs(uint32_t seven) { return seven | (static_cast<uint32_t>(std::popcount(seven)) & 1) << 7; }

// The codes of a point of `count` numbers; a negative one has the code `negative` further on.
void put_point(GgmlGrid grid, size_t point, int count, uint32_t signs, int negative, uint8_t* codes) {
  const uint8_t* numbers = ggml_grid(grid).data() + point * static_cast<size_t>(count);
  for (int i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(numbers[i] + ((signs >> i) & 1 ? negative : 0));
}

}  // namespace

// 32 numbers: four points in a byte each; four times seven signs and the scale.
void read_iq2_xxs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* at = b + 2 + 8 * g;
    const auto signs = word_at<uint32_t>(at + 4);
    scales[g] = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k)
      put_point(GgmlGrid::kIq2Xxs, at[k], 8, eight_signs((signs >> (7 * k)) & 127), 4, codes + 32 * g + 8 * k);
  }
}

void read_iq2_xs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 16; ++g) {
    scales[g] = d * (0.5f + static_cast<float>((b[66 + g / 2] >> (4 * (g % 2))) & 15)) * 0.25f;
    for (int k = 0; k < 2; ++k) {
      const auto both = word_at<uint16_t>(b + 2 + 4 * g + 2 * k);
      put_point(GgmlGrid::kIq2Xs, both & 511, 8, eight_signs(both >> 9), 4, codes + 16 * g + 8 * k);
    }
  }
}

void read_iq2_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 16; ++g)
    scales[g] = d * (0.5f + static_cast<float>((b[74 + g / 2] >> (4 * (g % 2))) & 15)) * 0.25f;
  for (int k = 0; k < 32; ++k) {
    const int high = (b[66 + k / 4] >> (2 * (k % 4))) & 3;
    put_point(GgmlGrid::kIq2S, static_cast<size_t>(b[2 + k] | high << 8), 8, b[34 + k], 4, codes + 8 * k);
  }
}

void read_iq3_xxs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 8; ++g) {
    const auto signs = word_at<uint32_t>(b + 66 + 4 * g);
    scales[g] = d * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k)
      put_point(GgmlGrid::kIq3Xxs, b[2 + 8 * g + k], 4, eight_signs((signs >> (7 * (k / 2))) & 127) >> (4 * (k % 2)), 8,
                codes + 32 * g + 4 * k);
  }
}

void read_iq3_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 8; ++g) {
    scales[g] = d * static_cast<float>(1 + 2 * ((b[106 + g / 2] >> (4 * (g % 2))) & 15));
    for (int k = 0; k < 8; ++k) {
      const int high = (b[66 + g] >> k) & 1;
      put_point(GgmlGrid::kIq3S, static_cast<size_t>(b[2 + 8 * g + k] | high << 8), 4,
                static_cast<uint32_t>(b[74 + 4 * g + k / 2] >> (4 * (k % 2))), 8, codes + 32 * g + 4 * k);
    }
  }
}

void read_iq1_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const float d = scale_at(b);
  for (int g = 0; g < 8; ++g) {
    const auto high = word_at<uint16_t>(b + 34 + 2 * g);
    scales[g] = d * static_cast<float>(2 * ((high >> 12) & 7) + 1) * 0.125f;
    for (int k = 0; k < 4; ++k)
      put_point(GgmlGrid::kIq1, static_cast<size_t>(b[2 + 4 * g + k] | ((high >> (3 * k)) & 7) << 8), 8,
                high & 0x8000 ? 255 : 0, 4, codes + 32 * g + 8 * k);
  }
}

// The scale of the block lies in the highest four bits of each of four words, lowest first.
void read_iq1_m(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(word_at<uint16_t>(b + 48 + 2 * i) >> 12) << (4 * i);
  const float d = float_of_half(static_cast<uint16_t>(bits));
  for (int g = 0; g < 16; ++g) {
    const int scale = (word_at<uint16_t>(b + 48 + 2 * (g / 4)) >> (3 * (g % 4))) & 7;
    scales[g] = d * static_cast<float>(2 * scale + 1) * 0.125f;
    for (int k = 0; k < 2; ++k) {
      const int high = (b[32 + g] >> (4 * k)) & 15;
      put_point(GgmlGrid::kIq1, static_cast<size_t>(b[2 * g + k] | (high & 7) << 8), 8, high & 8 ? 255 : 0, 4,
                codes + 16 * g + 8 * k);
    }
  }
}

// Five digits of base 3 a byte, as the fraction that it is of 256.
void read_tq1_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  const auto put = [&](const uint8_t* from, int count, int planes, uint8_t* to) {
    for (int plane = 0, power = 1; plane < planes; ++plane, power *= 3)
      for (int i = 0; i < count; ++i) {
        const auto fraction = static_cast<uint8_t>(from[i] * power);
        to[count * plane + i] = static_cast<uint8_t>((fraction * 3 >> 8) - 1 + 8);
      }
  };
  put(b, 32, 5, codes), put(b + 32, 16, 5, codes + 160), put(b + 48, 4, 4, codes + 240);
  for (int g = 0; g < 8; ++g) scales[g] = scale_at(b + 52);
}

void read_tq2_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  for (int i = 0; i < 256; ++i)
    codes[i] = static_cast<uint8_t>(((b[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3) - 1 + 8);
  for (int g = 0; g < 8; ++g) scales[g] = scale_at(b + 64);
}

}  // namespace transom
