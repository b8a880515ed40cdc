// SPDX-License-Identifier: Apache-2.0
// Which thread holds which element, against the vendors' documents: operands are laid out as the backend does, the
// instruction is carried out here as its document says, in float64, and the results are collected as the backend does.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "gpu/source/fragment_layout.h"

namespace transom::gpu {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Register r of a thread, part p of its parts.
struct Registers {
  std::vector<std::vector<std::vector<double>>> of;  // [thread][register][part]
};

// One instruction: element (row, k) of A lies in thread, register and part; of B, (k, column), likewise.
struct Place {
  int64_t thread, word, part;
};
struct Instruction {
  int64_t columns, depth, results;  // of 16 rows
  Place (*a)(int64_t row, int64_t k);
  Place (*b)(int64_t k, int64_t column);
  std::pair<int64_t, int64_t> (*c)(int64_t thread, int64_t i);  // row, column
};

// PTX ISA 8.5, 9.7.14.5.8: mma.m16n8k16 of .f16 and .bf16. groupID = thread >> 2, threadID_in_group = thread % 4.
constexpr Instruction kMma16{8,
                             16,
                             4,
                             [](int64_t row, int64_t k) {
                               return Place{(row % 8) * 4 + (k % 8) / 2, (row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0), k % 2};
                             },
                             [](int64_t k, int64_t n) {
                               return Place{n * 4 + (k % 8) / 2, k >= 8 ? 1 : 0, k % 2};
                             },
                             [](int64_t thread, int64_t i) {
                               return std::pair{(thread >> 2) + (i < 2 ? 0 : 8), (thread % 4) * 2 + (i & 1)};
                             }};
// 9.7.14.5.10: mma.m16n8k32 of .s8.
constexpr Instruction kMma32{
    8,
    32,
    4,
    [](int64_t row, int64_t k) {
      return Place{(row % 8) * 4 + (k % 16) / 4, (row >= 8 ? 1 : 0) + (k >= 16 ? 2 : 0), k % 4};
    },
    [](int64_t k, int64_t n) {
      return Place{n * 4 + (k % 16) / 4, k >= 16 ? 1 : 0, k % 4};
    },
    kMma16.c};
// AMD Instinct MI200 and MI300 ISA, V_MFMA_F32_16X16X16: A[i][4 (thread / 16) + j], i = thread % 16, j in its
// registers.
constexpr Instruction kMfma16{16,
                              16,
                              4,
                              [](int64_t row, int64_t k) {
                                return Place{row + 16 * (k / 4), k % 4 / 2, k % 2};
                              },
                              [](int64_t k, int64_t n) {
                                return Place{n + 16 * (k / 4), k % 4 / 2, k % 2};
                              },
                              [](int64_t thread, int64_t i) {
                                return std::pair{4 * (thread / 16) + i, thread % 16};
                              }};
// V_MFMA_I32_16X16X32_I8 of MI300: eight bytes a thread. MI200 does the words apart, V_MFMA_I32_16X16X16I8.
constexpr Instruction kMfma32{16,
                              32,
                              4,
                              [](int64_t row, int64_t k) {
                                return Place{row + 16 * (k / 8), k % 8 / 4, k % 4};
                              },
                              [](int64_t k, int64_t n) {
                                return Place{n + 16 * (k / 8), k % 8 / 4, k % 4};
                              },
                              kMfma16.c};
// RDNA 3 ISA, 7.9 WMMA: a thread has a whole row of A or column of B; threads 16 to 31 repeat the first 16.
constexpr Instruction kWmma16{16,
                              16,
                              8,
                              [](int64_t row, int64_t k) {
                                return Place{row, k / 2, k % 2};
                              },
                              [](int64_t k, int64_t n) {
                                return Place{n + 16, k / 2, k % 2};
                              },
                              [](int64_t thread, int64_t i) {
                                return std::pair{2 * i + thread / 16, thread % 16};
                              }};
constexpr Instruction kWmmaBytes{16,
                                 16,
                                 8,
                                 [](int64_t row, int64_t k) {
                                   return Place{row + 16, k / 4, k % 4};
                                 },
                                 [](int64_t k, int64_t n) {
                                   return Place{n, k / 4, k % 4};
                                 },
                                 kWmma16.c};
// Without a unit a thread multiplies what it has: rows of A 4 (thread % 4) + i / 2, columns 2 (thread / 4) + i % 2.

// What a step makes of the registers of all threads: `a_from`, `b_from` and `c_from` are the first of a thread's.
void carry_out(const Instruction& unit, const Registers& a, const Registers& b, std::vector<std::vector<double>>& c,
               int64_t a_from, int64_t b_from, int64_t c_from) {
  for (size_t thread = 0; thread < c.size(); ++thread)
    for (int64_t i = 0; i < unit.results; ++i) {
      const auto [row, column] = unit.c(static_cast<int64_t>(thread), i);
      for (int64_t k = 0; k < unit.depth; ++k) {
        const Place x = unit.a(row, k), y = unit.b(k, column);
        c[thread][static_cast<size_t>(c_from + i)] +=
            a.of[static_cast<size_t>(x.thread)][static_cast<size_t>(a_from + x.word)][static_cast<size_t>(x.part)] *
            b.of[static_cast<size_t>(y.thread)][static_cast<size_t>(b_from + y.word)][static_cast<size_t>(y.part)];
      }
    }
}

// A step of a unit with `parts` numbers in a word, by the backend's layout and the given instructions.
void expect_product(
    MatrixUnit unit, int64_t parts,
    const std::function<void(const Registers&, const Registers&, std::vector<std::vector<double>>&)>& step) {
  const FragmentCounts counts = counts_of(unit);
  const int64_t depth = kFragmentWords * parts;
  Matrix x(16, std::vector<double>(static_cast<size_t>(depth))), y = x;  // y: columns of B
  for (size_t i = 0; i < 16; ++i)
    for (size_t k = 0; k < static_cast<size_t>(depth); ++k)
      x[i][k] = static_cast<double>((i * 37 + k * 11) % 101) - 50,
      y[i][k] = static_cast<double>((i * 53 + k * 29) % 97) - 48;
  const auto threads = static_cast<size_t>(counts.wave);
  Registers a, b;
  a.of.resize(threads), b.of.resize(threads);
  for (size_t thread = 0; thread < threads; ++thread) {
    const auto t = static_cast<int64_t>(thread);
    const auto fill = [&](Registers& to, int64_t words, const Matrix& from, const auto& line_of, const auto& word_of) {
      for (int64_t w = 0; w < words; ++w) {
        const int64_t line = line_of(unit, t, w), word = word_of(unit, t, w);
        ASSERT_TRUE(line >= 0 && line < 16 && word >= 0 && word < kFragmentWords);
        const auto begin = from[static_cast<size_t>(line)].begin() + word * parts;
        to.of[thread].emplace_back(begin, begin + parts);
      }
    };
    fill(a, counts.a, x, a_row<int64_t>, a_word<int64_t>);
    fill(b, counts.b, y, b_column<int64_t>, b_word<int64_t>);
  }
  std::vector<std::vector<double>> c(threads, std::vector<double>(static_cast<size_t>(counts.c), 0));
  step(a, b, c);
  Matrix found(16, std::vector<double>(16)), times(16, std::vector<double>(16, 0));
  for (size_t thread = 0; thread < threads; ++thread)
    for (int64_t i = 0; i < counts.c; ++i) {
      const auto t = static_cast<int64_t>(thread);
      const auto row = static_cast<size_t>(c_row(unit, t, i)), column = static_cast<size_t>(c_column(unit, t, i));
      found[row][column] = c[thread][static_cast<size_t>(i)];
      ++times[row][column];
    }
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (size_t k = 0; k < static_cast<size_t>(depth); ++k) sum += x[i][k] * y[j][k];
      EXPECT_EQ(found[i][j], sum) << i << ", " << j;
      EXPECT_EQ(times[i][j], 1) << i << ", " << j;
    }
}

TEST(FragmentLayout, OfNvidiasMma) {
  for (const auto& [instruction, parts] : {std::pair{&kMma16, int64_t{2}}, {&kMma32, int64_t{4}}})
    expect_product(MatrixUnit::kMma, parts, [&, of = instruction](const auto& a, const auto& b, auto& c) {
      carry_out(*of, a, b, c, 0, 0, 0);  // columns 0 to 7
      carry_out(*of, a, b, c, 0, 2, 4);  // columns 8 to 15
    });
}

TEST(FragmentLayout, OfMfmaOnWavesOf64) {
  expect_product(MatrixUnit::kMfma, 2,
                 [](const auto& a, const auto& b, auto& c) { carry_out(kMfma16, a, b, c, 0, 0, 0); });
  expect_product(MatrixUnit::kMfma, 4,
                 [](const auto& a, const auto& b, auto& c) { carry_out(kMfma32, a, b, c, 0, 0, 0); });
}

// Bytes on MI200: each word of a thread by an instruction of depth 16, four bytes a thread.
TEST(FragmentLayout, OfMfmaOfBytesWordByWord) {
  constexpr Instruction bytes{16,
                              16,
                              4,
                              [](int64_t row, int64_t k) {
                                return Place{row + 16 * (k / 4), 0, k % 4};
                              },
                              [](int64_t k, int64_t n) {
                                return Place{n + 16 * (k / 4), 0, k % 4};
                              },
                              kMfma16.c};
  expect_product(MatrixUnit::kMfma, 4, [&](const auto& a, const auto& b, auto& c) {
    carry_out(bytes, a, b, c, 0, 0, 0);
    carry_out(bytes, a, b, c, 1, 1, 0);
  });
}

TEST(FragmentLayout, OfWmmaWithBothHalvesAlike) {
  expect_product(MatrixUnit::kWmma, 2,
                 [](const auto& a, const auto& b, auto& c) { carry_out(kWmma16, a, b, c, 0, 0, 0); });
  expect_product(MatrixUnit::kWmma, 4, [](const auto& a, const auto& b, auto& c) {
    carry_out(kWmmaBytes, a, b, c, 0, 0, 0);
    carry_out(kWmmaBytes, a, b, c, 4, 4, 0);
  });
}

TEST(FragmentLayout, WithoutAUnitAThreadHasWhatItMultiplies) {
  for (const int64_t parts : {1, 2, 4})
    expect_product(MatrixUnit::kVector, parts, [&](const Registers& a, const Registers& b, auto& c) {
      for (size_t thread = 0; thread < c.size(); ++thread)
        for (size_t i = 0; i < 8; ++i)
          for (size_t w = 0; w < 8; ++w)
            for (size_t p = 0; p < static_cast<size_t>(parts); ++p)
              c[thread][i] += a.of[thread][i / 2 * 8 + w][p] * b.of[thread][i % 2 * 8 + w][p];
    });
}

}  // namespace
}  // namespace transom::gpu
