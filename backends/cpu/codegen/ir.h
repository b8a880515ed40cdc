// SPDX-License-Identifier: Apache-2.0
// Values that write LLVM IR: an operator on them appends one vector instruction to the text of a kernel. With the same
// operators as float has, the functions of vector/math.h run over them unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace transom::cpu::codegen {

enum class Element { kI1, kI8, kI16, kI32, kI64, kHalf, kFloat, kDouble };
std::string_view element_name(Element element);
size_t element_bytes(Element element);

// The text of one function under construction.
class Writer {
 public:
  explicit Writer(size_t width) : width_(width) {}

  // Appends "%n = <text>" and returns "%n".
  std::string define(std::string_view text);
  void line(std::string_view text);
  std::string vector(Element element) const;  // "<16 x float>"
  size_t defined() const { return next_; }
  size_t width() const { return width_; }
  const std::string& text() const { return text_; }

 private:
  size_t width_;
  size_t next_ = 0;
  std::string text_;
};

// `body` as often as there are suffixes, line by line, so that no copy waits for the end of another. What the body
// defines ("%n" with n >= first) and %i end in the copy's suffix.
std::string interleaved(std::string_view body, size_t first, std::span<const std::string> suffixes);

// A vector: a name in the text, or a constant (which no writer has written yet).
struct Vector {
  Writer* writer = nullptr;
  std::string name;
  Element element = Element::kFloat;

  std::string typed() const { return writer->vector(element) + " " + name; }
};

// "opcode <type> x, y", and the same for other shapes of instructions. The result has the type of x unless said.
Vector binary(std::string_view opcode, const Vector& x, const Vector& y);
Vector compare(std::string_view predicate, const Vector& x, const Vector& y);  // "fcmp olt"; gives kI1
Vector choose(const Vector& condition, const Vector& x, const Vector& y);
Vector convert(std::string_view opcode, const Vector& x, Element to);
Vector intrinsic(std::string_view name, const Vector& x);
Vector constant(Element element, uint64_t bits);  // the bits of the number

// The numbers of vector/math.h.
struct Mask {
  Vector vector;
};
struct Bits {
  Vector vector;
  explicit Bits(uint32_t value);
  explicit Bits(Vector made) : vector(std::move(made)) {}
};
struct Float {
  Vector vector;
  explicit Float(float value);
  explicit Float(Vector made) : vector(std::move(made)) {}
};

Float operator+(const Float& x, const Float& y);
Float operator-(const Float& x, const Float& y);
Float operator*(const Float& x, const Float& y);
Float operator/(const Float& x, const Float& y);
Mask operator<(const Float& x, const Float& y);
Mask operator>(const Float& x, const Float& y);
Mask operator>=(const Float& x, const Float& y);
Mask operator==(const Float& x, const Float& y);
Float multiply_add(const Float& x, const Float& y, const Float& z);
Float absolute(const Float& x);
Float select(const Mask& condition, const Float& x, const Float& y);
Bits as_bits(const Float& x);
Float as_float(const Bits& x);
Float to_float(const Bits& x);
// x 2^n by the one instruction for it where vectors have 16 lanes; n as both kinds of number.
Float times_power_of_two(const Float& x, const Float& n, const Bits& integer);

Bits operator+(const Bits& x, const Bits& y);
Bits operator-(const Bits& x, const Bits& y);
Bits operator&(const Bits& x, const Bits& y);
Bits operator|(const Bits& x, const Bits& y);
Bits operator<<(const Bits& x, int places);
Bits shift_right(const Bits& x, int places);
Bits shift_right_signed(const Bits& x, int places);
Bits select(const Mask& condition, const Bits& x, const Bits& y);

}  // namespace transom::cpu::codegen
