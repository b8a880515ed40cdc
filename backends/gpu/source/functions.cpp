// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/functions.h"

#include <map>
#include <vector>

#include "gpu/source/float_text.h"
#include "gpu/source/fragments.h"
#include "transom/plugin/error.h"

namespace transom::gpu {
namespace float_text {

constexpr float kInfinity = __builtin_inff();
#include "common/float_functions.inc"

// "float f_exp(float x)" from a function over numbers that write text.
std::string written(const char* name, Float (*function)(Float)) {
  std::string body;
  statements = &body;
  names = 0;
  const Float result = function(Float::named("x"));
  statements = nullptr;
  return fmt::format("FUNCTION float {}(float x) {{\n{}return {};\n}}\n", name, body, result.name);
}

}  // namespace float_text

namespace {

struct Definition {
  std::vector<const char*> needs;
  std::string text;
};

constexpr const char* kFromF16 = R"(
FUNCTION float from_f16(u16 h) {
  const u32 sign = (u32)(h & 0x8000) << 16, magnitude = h & 0x7FFF;
  if (magnitude >= 0x7C00) return as_float(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  if (magnitude >= 0x400) return as_float(sign | ((magnitude << 13) + 0x38000000u));
  const float small = (float)magnitude * as_float(0x33800000u); /* 2^-24 */
  return as_float(sign | as_uint(small));
}
)";
constexpr const char* kToF16 = R"(
FUNCTION u16 to_f16(float x) {
  const u32 bits = as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000u) return (u16)(sign | 0x7E00);
  if (magnitude >= 0x477FF000u) return (u16)(sign | 0x7C00);
  if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 leaves 24 places behind the point */
    const u32 shifted = as_uint(as_float(magnitude) + 0.5f) - 0x3F000000u;
    return (u16)(sign | shifted);
  }
  return (u16)(sign | ((magnitude - 0x38000000u + 0xFFF + (magnitude >> 13 & 1)) >> 13));
}
)";
// The nearest e4m3 of magnitudes to 448, ties to even. In the form of the unit: without zeros of a sign where they are
// its NaN (FNUZ), whose numbers of the same bits are half as large.
constexpr const char* kToFp8 = R"(
#ifdef FP8_FNUZ
#define FP8_UNIT 4.0f
FUNCTION u32 fp8_code(u32 code) { return (code & 127) == 127 ? 128 : code == 128 ? 0 : code; }
FUNCTION u32 fp8_word(u32 word) {
  return fp8_code(word & 255) | fp8_code(word >> 8 & 255) << 8 | fp8_code(word >> 16 & 255) << 16 | fp8_code(word >> 24) << 24;
}
#else
#define FP8_UNIT 1.0f
FUNCTION u32 fp8_word(u32 word) { return word; }
#endif
FUNCTION u32 to_fp8(float x) {
  const u32 bits = as_uint(x), sign = bits >> 24 & 128, magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x43E00000u) return sign | 126; /* 448; NaN is the scale's */
  if (magnitude < 0x3C800000u) return sign | (u32)rint(as_float(magnitude) * 512.0f); /* below 2^-6 */
  return sign | ((magnitude - 0x3C000000u + 0x7FFFF + (magnitude >> 20 & 1)) >> 20);
}
)";
constexpr const char* kFromBf16 = "FUNCTION float from_bf16(u16 h) { return as_float((u32)h << 16); }\n";
constexpr const char* kToBf16 = R"(
FUNCTION u16 to_bf16(float x) {
  const u32 bits = as_uint(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000u) return (u16)(bits >> 16 | 0x40);
  return (u16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
)";
// To odd, so that rounding the result to 16 bits rounds the double once.
constexpr const char* kNarrowed = R"(
FUNCTION float narrowed(double x) {
  float f = (float)x;
  if (fabs((double)f) > fabs(x)) f = as_float(as_uint(f) - 1);
  if ((double)f != x) f = as_float(as_uint(f) | 1);
  return f;
}
)";
constexpr const char* kPhilox = R"(
FUNCTION u32 philox(i64 seed, i64 offset, i64 i) {
  const u64 block = (u64)i >> 2;
  u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)offset, d = (u32)((u64)offset >> 32);
  u32 k = (u32)seed, l = (u32)((u64)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
    a = (u32)(q >> 32) ^ b ^ k;
    b = (u32)q;
    c = (u32)(p >> 32) ^ d ^ l;
    d = (u32)p;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  const int word = (int)(i & 3);
  return word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
}
)";
// As sine_value of the cpu device. Arguments that its reduction does not reach are the compiler's.
constexpr const char* kSine = R"(
FUNCTION float sine_of(float value, int quadrant) {
  if (!(fabs(value) < 4194304.0f)) return quadrant == 0 ? (float)sin((double)value) : (float)cos((double)value);
  const double x = (double)value, shifted = x * 0.63661977236758134308 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const int k = (int)n + quadrant;
  const float r = (float)((x - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17);
  const float s = r * r;
  float odd = -1.9515295891e-4f;
  odd = odd * s + 8.3321608736e-3f;
  odd = odd * s + -1.6666654611e-1f;
  odd = odd * s * r + r;
  float even = 2.443315711809948e-5f;
  even = even * s + -1.388731625493765e-3f;
  even = even * s + 4.166664568298827e-2f;
  even = even * s * s - 0.5f * s + 1.0f;
  const float result = (k & 1) ? even : odd;
  const float turned = (k & 2) ? -result : result;
  return quadrant == 0 && value == 0.0f ? value : turned;
}
)";

// What integers and floating numbers have in common, for one type each.
std::string of_type(const char* pattern, const char* type, const char* suffix) {
  std::string text;
  for (const char* p = pattern; *p; ++p) {
    if (*p == '@') text += type;
    else if (*p == '$') text += suffix;
    else text += *p;
  }
  return text;
}

constexpr const char* kRemainder = R"(
FUNCTION @ remainder_$(@ x, @ y) {
  const @ r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
)";
constexpr const char* kIntegerDivide = R"(
FUNCTION @ divide_$(@ x, @ y) {
  if (y == 0) return 0;
  if ((@)-1 < 0 && y == (@)-1) return (@)(0 - (u64)x);
  return x / y;
}
)";
constexpr const char* kIntegerRemainder = R"(
FUNCTION @ remainder_$(@ x, @ y) {
  if (y == 0 || ((@)-1 < 0 && y == (@)-1)) return 0;
  const @ r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
)";
constexpr const char* kIntegerPower = R"(
FUNCTION @ power_$(@ x, @ y) {
  if (y < 0) return x == 1 ? 1 : x == (@)-1 ? (y % 2 ? (@)-1 : 1) : 0;
  u64 result = 1, base = (u64)x;
  for (; y > 0; y >>= 1, base *= base)
    if (y & 1) result *= base;
  return (@)result;
}
)";

std::map<std::string, Definition, std::less<>> make_definitions() {
  using namespace float_text;
  std::map<std::string, Definition, std::less<>> all;
  const auto add = [&](const char* name, std::vector<const char*> needs, std::string text) {
    all.emplace(name, Definition{std::move(needs), std::move(text)});
  };
  add("from_f16", {}, kFromF16);
  add("to_f16", {}, kToF16);
  add("from_bf16", {}, kFromBf16);
  add("to_bf16", {}, kToBf16);
  add("to_fp8", {}, kToFp8);
  add("narrowed", {}, kNarrowed);
  add("philox", {}, kPhilox);
  add("fragments", {"from_f16"}, fragment_definitions());
  add("sine_of", {}, kSine);
#define TRANSOM_FUNCTION(name) add("f_" #name, {}, written("f_" #name, [](Float x) { return name##_value(x); }))
  TRANSOM_FUNCTION(exp);
  TRANSOM_FUNCTION(expm1);
  TRANSOM_FUNCTION(log);
  TRANSOM_FUNCTION(log1p);
  TRANSOM_FUNCTION(tanh);
  TRANSOM_FUNCTION(erf);
#undef TRANSOM_FUNCTION
  add("remainder_float", {}, of_type(kRemainder, "float", "float"));
  add("remainder_double", {}, of_type(kRemainder, "double", "double"));
  for (const char* type : {"u8", "i8", "i32", "i64", "u32"}) {
    const std::string name = type;
    add(("divide_" + name).c_str(), {}, of_type(kIntegerDivide, type, type));
    add(("remainder_" + name).c_str(), {}, of_type(kIntegerRemainder, type, type));
    add(("power_" + name).c_str(), {}, of_type(kIntegerPower, type, type));
  }
  return all;
}

}  // namespace

std::string definitions(const std::set<std::string, std::less<>>& names) {
  static const auto all = make_definitions();
  std::string text;
  std::set<std::string, std::less<>> written;
  const auto write = [&](const auto& self, const std::string& name) -> void {
    if (!written.insert(name).second) return;
    const auto found = all.find(name);
    if (found == all.end()) backend::fail(TRANSOM_INTERNAL, "kernels know no function {}", name);
    for (const char* need : found->second.needs) self(self, need);
    text += found->second.text;
  };
  for (const std::string& name : names) write(write, name);
  return text;
}

}  // namespace transom::gpu
