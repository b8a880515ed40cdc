// SPDX-License-Identifier: Apache-2.0
#include "matrix_units.h"

#include <cstdlib>
#include <span>
#include <string_view>

namespace emulator {
namespace {

// One instruction: `wave` threads, words of A and B and results of a thread, the depth. Row r and depth k of A lie in
// the register `a_register` of the thread `a_thread`, in its part k % parts; column n of B likewise. Result i is of the
// row and column named. "lane" is the thread that computes.
struct Instruction {
  const char *name, *wave, *a, *b, *results, *depth;
  const char *a_thread, *a_register, *b_thread, *b_register, *row, *column, *term;
};

constexpr const char* kBf16 =
    "fma(as_float((e_x >> e_k % 2 * 16) << 16), as_float((e_y >> e_k % 2 * 16) << 16), (c)[e_i])";
constexpr const char* kF16 =
    "fma(emulated_f16(e_x >> e_k % 2 * 16 & 0xFFFF), emulated_f16(e_y >> e_k % 2 * 16 & 0xFFFF), (c)[e_i])";
constexpr const char* kI8 = "(c)[e_i] + (i32)(i8)(e_x >> e_k % 4 * 8 & 255) * (i32)(i8)(e_y >> e_k % 4 * 8 & 255)";
// OCP's e4m3, and the one of MI300 without zeros of a sign, whose exponent counts from 8.
constexpr const char* kFp8 =
    "fma(emulated_e4m3(e_x >> e_k % 4 * 8 & 255), emulated_e4m3(e_y >> e_k % 4 * 8 & 255), (c)[e_i])";
constexpr const char* kFnuz =
    "fma(emulated_fnuz(e_x >> e_k % 4 * 8 & 255), emulated_fnuz(e_y >> e_k % 4 * 8 & 255), (c)[e_i])";

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "for mma.m16n8k32": groupID is the thread
// / 4, threadID_in_group the thread % 4.
constexpr const char *kMmaRow = "lane / 4 + e_i / 2 * 8", *kMmaColumn = "lane % 4 * 2 + e_i % 2";
constexpr Instruction kMma[] = {
    {"MMA_BF16", "32", "4", "2", "4", "16", "e_r % 8 * 4 + e_k % 8 / 2", "e_r / 8 + e_k / 8 * 2",
     "e_n * 4 + e_k % 8 / 2", "e_k / 8", kMmaRow, kMmaColumn, kBf16},
    {"MMA_F16", "32", "4", "2", "4", "16", "e_r % 8 * 4 + e_k % 8 / 2", "e_r / 8 + e_k / 8 * 2",
     "e_n * 4 + e_k % 8 / 2", "e_k / 8", kMmaRow, kMmaColumn, kF16},
    {"MMA_I8", "32", "4", "2", "4", "32", "e_r % 8 * 4 + e_k % 16 / 4", "e_r / 8 + e_k / 16 * 2",
     "e_n * 4 + e_k % 16 / 4", "e_k / 16", kMmaRow, kMmaColumn, kI8},
    {"MMA_FP8", "32", "4", "2", "4", "32", "e_r % 8 * 4 + e_k % 16 / 4", "e_r / 8 + e_k / 16 * 2",
     "e_n * 4 + e_k % 16 / 4", "e_k / 16", kMmaRow, kMmaColumn, kFp8},
};
// AMD's matrix instruction calculator for CDNA 2 and 3: i = thread % 16, block of the depth thread / 16; results of
// four neighbouring rows.
constexpr const char *kMfmaRow = "lane / 16 * 4 + e_i", *kMfmaColumn = "lane % 16";
constexpr Instruction kMfma[] = {
    {"MMA_BF16", "64", "2", "2", "4", "16", "e_r + e_k / 4 * 16", "e_k % 4 / 2", "e_n + e_k / 4 * 16", "e_k % 4 / 2",
     kMfmaRow, kMfmaColumn, kBf16},
    {"MMA_F16", "64", "2", "2", "4", "16", "e_r + e_k / 4 * 16", "e_k % 4 / 2", "e_n + e_k / 4 * 16", "e_k % 4 / 2",
     kMfmaRow, kMfmaColumn, kF16},
    {"MMA_I8", "64", "2", "2", "4", "32", "e_r + e_k / 8 * 16", "e_k % 8 / 4", "e_n + e_k / 8 * 16", "e_k % 8 / 4",
     kMfmaRow, kMfmaColumn, kI8},
    {"MMA_FP8", "64", "2", "2", "4", "32", "e_r + e_k / 8 * 16", "e_k % 8 / 4", "e_n + e_k / 8 * 16", "e_k % 8 / 4",
     kMfmaRow, kMfmaColumn, kFnuz},
};
// RDNA 3 ISA, "Wave Matrix Multiply Accumulate": threads 0 to 15 and 16 to 31 must hold the same rows of A and columns
// of B. Each is read from the other half here than the one that it belongs to, so that it shows if they do not.
constexpr const char *kWmmaRow = "e_i * 2 + lane / 16", *kWmmaColumn = "lane % 16";
constexpr Instruction kWmma[] = {
    {"MMA_BF16", "32", "8", "8", "8", "16", "e_r + lane / 16 * 16", "e_k / 2", "e_n + (1 - lane / 16) * 16", "e_k / 2",
     kWmmaRow, kWmmaColumn, kBf16},
    {"MMA_F16", "32", "8", "8", "8", "16", "e_r + lane / 16 * 16", "e_k / 2", "e_n + (1 - lane / 16) * 16", "e_k / 2",
     kWmmaRow, kWmmaColumn, kF16},
    {"MMA_I8", "32", "4", "4", "8", "16", "e_r + lane / 16 * 16", "e_k / 4", "e_n + (1 - lane / 16) * 16", "e_k / 4",
     kWmmaRow, kWmmaColumn, kI8},
};

std::string written(const Instruction& of) {
  const std::string wave = of.wave;
  return std::string("#define ") + of.name + "(c, a, b) { \\\n" +                                        //
         "const int lane = (int)THREAD % " + wave + ", e_first = (int)THREAD - lane; \\\n" +             //
         "for (int e_w = 0; e_w < " + of.a + "; ++e_w) emulated_a[THREAD * 8 + e_w] = (a)[e_w]; \\\n" +  //
         "for (int e_w = 0; e_w < " + of.b + "; ++e_w) emulated_b[THREAD * 8 + e_w] = (b)[e_w]; \\\n" +  //
         "BARRIER; \\\nfor (int e_i = 0; e_i < " + of.results + "; ++e_i) { \\\n" +                      //
         "const int e_r = " + of.row + ", e_n = " + of.column + "; \\\n" +                               //
         "for (int e_k = 0; e_k < " + of.depth + "; ++e_k) { \\\n" +                                     //
         "const u32 e_x = emulated_a[(e_first + " + of.a_thread + ") * 8 + " + of.a_register + "]; \\\n" +
         "const u32 e_y = emulated_b[(e_first + " + of.b_thread + ") * 8 + " + of.b_register + "]; \\\n" +
         "(c)[e_i] = " + of.term + "; } } \\\nBARRIER; }\n";
}

constexpr const char* kFloat8Functions = R"(
float emulated_e4m3(u32 b) {
  const u32 exponent = b >> 3 & 15, places = b & 7;
  if ((b & 127) == 127) return as_float(0x7FC00000u);
  const float magnitude = exponent ? as_float((exponent + 120) << 23 | places << 20) : (float)places * 0x1p-9f;
  return b & 128 ? -magnitude : magnitude;
}
float emulated_fnuz(u32 b) {
  const u32 exponent = b >> 3 & 15, places = b & 7;
  if (b == 128) return as_float(0x7FC00000u);
  const float magnitude = exponent ? as_float((exponent + 119) << 23 | places << 20) : (float)places * 0x1p-10f;
  return b & 128 ? -magnitude : magnitude;
}
)";

constexpr const char* kF16Function = R"(
float emulated_f16(u32 h) {
  const u32 sign = (h & 0x8000) << 16, magnitude = h & 0x7FFF;
  if (magnitude >= 0x7C00) return as_float(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  return as_float(sign | as_uint(as_float(magnitude << 13) * as_float(0x77800000u))); /* 2^112 */
}
)";

}  // namespace

std::string chip() {
#if defined(EMULATED_HIP)
  const char* text = std::getenv("TRANSOM_EMULATED_GPU_CHIP");
  const std::string name = text ? text : "";
  return name == "gfx90a" || name == "gfx1100" ? name : "gfx942";
#else
  return "sm_90";
#endif
}

int wave_of_chip() { return chip().starts_with("gfx9") ? 64 : 32; }

std::string matrix_instructions() {
  const bool mma = chip() == "sm_90", mfma = chip().starts_with("gfx9");
  std::string text = std::string("#define MATRIX_UNIT ") +
                     (mma    ? "1"
                      : mfma ? "2"
                             : "3") +
                     "\n" + "#define UNROLL\n" +
                     "#define MATRIX_MEMORY LOCAL u32 emulated_a[2048]; LOCAL u32 emulated_b[2048];\n" + kF16Function;
  text += kFloat8Functions;
  if (chip() == "gfx942") text += "#define FP8_FNUZ\n";
  const std::span<const Instruction> all = mma    ? std::span<const Instruction>(kMma)
                                           : mfma ? std::span<const Instruction>(kMfma)
                                                  : std::span<const Instruction>(kWmma);
  for (const Instruction& each : all)
    if (chip() != "gfx90a" || std::string_view(each.name) != "MMA_FP8") text += written(each);
  return text;
}

}  // namespace emulator
