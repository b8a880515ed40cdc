// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/fragments.h"

#include <fmt/format.h>

#include <cstdlib>

#include "gpu/source/fragment_layout.h"
#include "transom/plugin/error.h"

namespace transom::gpu {
namespace {

// A number that writes itself.
struct Written {
  std::string text;
};
Written combined(const Written& x, const char* symbol, const std::string& y) {
  return {fmt::format("({} {} {})", x.text, symbol, y)};
}
Written operator+(const Written& x, const Written& y) { return combined(x, "+", y.text); }
Written operator*(const Written& x, int64_t y) { return combined(x, "*", fmt::format("{}", y)); }
Written operator/(const Written& x, int64_t y) { return combined(x, "/", fmt::format("{}", y)); }
Written operator%(const Written& x, int64_t y) { return combined(x, "%", fmt::format("{}", y)); }

std::string layout(const char* set, MatrixUnit unit) {
  const FragmentCounts counts = counts_of(unit);
  const Written l{"(l)"}, w{"(w)"};
  std::string text = fmt::format("#define {0}_WAVE {1}\n#define {0}_A {2}\n#define {0}_B {3}\n#define {0}_C {4}\n", set,
                                 counts.wave, counts.a, counts.b, counts.c);
  const auto add = [&](const char* name, const Written& place) {
    text += fmt::format("#define {}_{}(l, w) {}\n", set, name, place.text);
  };
  add("A_ROW", a_row(unit, l, w)), add("A_WORD", a_word(unit, l, w));
  add("B_COLUMN", b_column(unit, l, w)), add("B_WORD", b_word(unit, l, w));
  add("C_ROW", c_row(unit, l, w)), add("C_COLUMN", c_column(unit, l, w));
  return text;
}

// Instructions that make the 16 x 16 results of a step.
constexpr const char* kMmaSteps = R"(
#define M_MULTIPLY_BF16(c, a, b) { MMA_BF16((c), (a), (b)) MMA_BF16((c) + 4, (a), (b) + 2) }
#define M_MULTIPLY_F16(c, a, b) { MMA_F16((c), (a), (b)) MMA_F16((c) + 4, (a), (b) + 2) }
#define M_MULTIPLY_I8(c, a, b) { MMA_I8((c), (a), (b)) MMA_I8((c) + 4, (a), (b) + 2) }
#define M_MULTIPLY_FP8(c, a, b) { MMA_FP8((c), (a), (b)) MMA_FP8((c) + 4, (a), (b) + 2) }
)";
constexpr const char* kMfmaSteps = R"(
#define M_MULTIPLY_BF16(c, a, b) { MMA_BF16((c), (a), (b)) }
#define M_MULTIPLY_F16(c, a, b) { MMA_F16((c), (a), (b)) }
#define M_MULTIPLY_I8(c, a, b) { MMA_I8((c), (a), (b)) }
#define M_MULTIPLY_FP8(c, a, b) { MMA_FP8((c), (a), (b)) }
)";
constexpr const char* kWmmaSteps = R"(
#define M_MULTIPLY_BF16(c, a, b) { MMA_BF16((c), (a), (b)) }
#define M_MULTIPLY_F16(c, a, b) { MMA_F16((c), (a), (b)) }
#define M_MULTIPLY_I8(c, a, b) { MMA_I8((c), (a), (b)) MMA_I8((c), (a) + 4, (b) + 4) }
)";
constexpr const char* kPlainSteps = R"(
#define M_MULTIPLY_BF16 V_MULTIPLY_BF16
#define M_MULTIPLY_F16 V_MULTIPLY_F16
#define M_MULTIPLY_I8 V_MULTIPLY_I8
)";
// In the order of the depth.
constexpr const char* kVectorSteps = R"(
#define V_EACH(a, b, added) UNROLL for (int v_w = 0; v_w < 8; ++v_w) UNROLL for (int v_i = 0; v_i < V_C; ++v_i) { \
  const u32 v_x = (a)[v_i / 2 * 8 + v_w], v_y = (b)[v_i % 2 * 8 + v_w]; added }
#define V_MULTIPLY_F32(c, a, b) V_EACH(a, b, (c)[v_i] = fma(as_float(v_x), as_float(v_y), (c)[v_i]);)
#define V_MULTIPLY_BF16(c, a, b) V_EACH(a, b, (c)[v_i] = fma(as_float(v_x << 16), as_float(v_y << 16), (c)[v_i]); \
  (c)[v_i] = fma(as_float(v_x & 0xFFFF0000u), as_float(v_y & 0xFFFF0000u), (c)[v_i]);)
#define V_MULTIPLY_F16(c, a, b) V_EACH(a, b, \
  (c)[v_i] = fma(from_f16((u16)(v_x & 0xFFFF)), from_f16((u16)(v_y & 0xFFFF)), (c)[v_i]); \
  (c)[v_i] = fma(from_f16((u16)(v_x >> 16)), from_f16((u16)(v_y >> 16)), (c)[v_i]);)
#define V_BYTE(x, i) ((i32)(i8)((x) >> (8 * (i)) & 255))
#define V_MULTIPLY_I8(c, a, b) V_EACH(a, b, (c)[v_i] += V_BYTE(v_x, 0) * V_BYTE(v_y, 0) + \
  V_BYTE(v_x, 1) * V_BYTE(v_y, 1) + V_BYTE(v_x, 2) * V_BYTE(v_y, 2) + V_BYTE(v_x, 3) * V_BYTE(v_y, 3);)
)";

}  // namespace

std::string fragment_definitions() {
  return layout("V", MatrixUnit::kVector) + kVectorSteps +  //
         "#if MATRIX_UNIT == 1\n" + layout("M", MatrixUnit::kMma) + kMmaSteps + "#elif MATRIX_UNIT == 2\n" +
         layout("M", MatrixUnit::kMfma) + kMfmaSteps + "#elif MATRIX_UNIT == 3\n" + layout("M", MatrixUnit::kWmma) +
         kWmmaSteps + "#else\n" + layout("M", MatrixUnit::kVector) + kPlainSteps + "#endif\n";
}

FragmentKind fragment_kind(transom_dtype dtype) {
  if (dtype == TRANSOM_FLOAT32) return {"V", "V_MULTIPLY_F32", 1, "float"};
  if (dtype == TRANSOM_BFLOAT16) return {"M", "M_MULTIPLY_BF16", 2, "float"};
  if (dtype == TRANSOM_FLOAT16) return {"M", "M_MULTIPLY_F16", 2, "float"};
  if (dtype == TRANSOM_INT8 || dtype == TRANSOM_UINT8) return {"M", "M_MULTIPLY_I8", 4, "i32"};
  backend::fail(TRANSOM_INTERNAL, "no fragments of the type {}", static_cast<int>(dtype));
}

bool multiplies_float8(const std::string& architecture) {
  if (architecture.starts_with("sm_")) return std::atoi(architecture.c_str() + 3) >= 89;
  return architecture.starts_with("gfx94") || architecture.starts_with("gfx950");
}

FragmentKind float8_fragments() { return {"M", "M_MULTIPLY_FP8", 4, "float"}; }

}  // namespace transom::gpu
