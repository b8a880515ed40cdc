// SPDX-License-Identifier: Apache-2.0
// Numbers that write the text of a function: an operator on them appends one statement. With the same operators as
// float has, the functions of common/float_functions.inc run over them unchanged.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>

namespace transom::gpu::float_text {

// The statements of the function that is being written, on this thread.
inline thread_local std::string* statements = nullptr;
inline thread_local int names = 0;

inline std::string define(const char* type, const std::string& value) {
  const std::string name = fmt::format("t{}", names++);
  *statements += fmt::format("const {} {} = {};\n", type, name, value);
  return name;
}

struct Mask {
  std::string name;
};
struct Bits {
  std::string name;
  explicit Bits(uint32_t value) : name(fmt::format("{}u", value)) {}
  static Bits made(const std::string& value) {
    Bits bits(0u);
    bits.name = define("u32", value);
    return bits;
  }
};
struct Float {
  std::string name;
  explicit Float(float value) : name(fmt::format("as_float(0x{:x}u)", std::bit_cast<uint32_t>(value))) {}
  static Float named(std::string name) {
    Float result(0.0f);
    result.name = std::move(name);
    return result;
  }
  static Float made(const std::string& value) { return named(define("float", value)); }
};

#define TRANSOM_OPERATOR(Result, Operand, type, symbol)               \
  inline Result operator symbol(const Operand& x, const Operand& y) { \
    return type(fmt::format("{} {} {}", x.name, #symbol, y.name));    \
  }
TRANSOM_OPERATOR(Float, Float, Float::made, +)
TRANSOM_OPERATOR(Float, Float, Float::made, -)
TRANSOM_OPERATOR(Float, Float, Float::made, *)
TRANSOM_OPERATOR(Float, Float, Float::made, /)
TRANSOM_OPERATOR(Bits, Bits, Bits::made, +)
TRANSOM_OPERATOR(Bits, Bits, Bits::made, -)
inline Mask mask(const std::string& value) { return {define("int", value)}; }
TRANSOM_OPERATOR(Mask, Float, mask, <)
TRANSOM_OPERATOR(Mask, Float, mask, >)
TRANSOM_OPERATOR(Mask, Float, mask, >=)
TRANSOM_OPERATOR(Mask, Float, mask, ==)
#undef TRANSOM_OPERATOR

inline Float multiply_add(const Float& x, const Float& y, const Float& z) { return x * y + z; }
inline Float absolute(const Float& x) { return Float::made(fmt::format("fabs({})", x.name)); }
inline Float select(const Mask& condition, const Float& x, const Float& y) {
  return Float::made(fmt::format("{} ? {} : {}", condition.name, x.name, y.name));
}
inline Bits as_bits(const Float& x) { return Bits::made(fmt::format("as_uint({})", x.name)); }
inline Float as_float(const Bits& x) { return Float::made(fmt::format("as_float({})", x.name)); }
inline Float to_float(const Bits& x) { return Float::made(fmt::format("(float)(i32){}", x.name)); }
inline Bits operator<<(const Bits& x, int places) { return Bits::made(fmt::format("{} << {}", x.name, places)); }
inline Bits shift_right_signed(const Bits& x, int places) {
  return Bits::made(fmt::format("(u32)((i32){} >> {})", x.name, places));
}

}  // namespace transom::gpu::float_text
