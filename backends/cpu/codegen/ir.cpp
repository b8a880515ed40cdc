// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>

namespace transom::cpu::codegen {

std::string_view element_name(Element element) {
  constexpr std::string_view kNames[] = {"i1", "i8", "i16", "i32", "i64", "half", "float", "double"};
  return kNames[static_cast<size_t>(element)];
}

size_t element_bytes(Element element) {
  constexpr size_t kBytes[] = {1, 1, 2, 4, 8, 2, 4, 8};
  return kBytes[static_cast<size_t>(element)];
}

std::string Writer::define(std::string_view text) {
  std::string name = fmt::format("%v{}", next_++);
  line(fmt::format("{} = {}", name, text));
  return name;
}

void Writer::line(std::string_view text) {
  text_ += "  ";
  text_ += text;
  text_ += '\n';
}

std::string Writer::vector(Element element) const { return fmt::format("<{} x {}>", width_, element_name(element)); }

namespace {

// The length of the name that `text` begins with, if it is one that each copy has for itself; else 0.
size_t own_name(std::string_view text, size_t first) {
  const size_t end = std::min(text.find_first_not_of("0123456789", 2), text.size());
  if (text.starts_with("%i")) return end == 2 && (text.size() == 2 || !std::isalpha(text[2])) ? 2 : 0;
  size_t number = 0;
  if (!text.starts_with("%v")) return 0;
  std::from_chars(text.data() + 2, text.data() + end, number);
  return number >= first ? end : 0;
}

}  // namespace

std::string interleaved(std::string_view body, size_t first, std::span<const std::string> suffixes) {
  std::string made;
  for (size_t begin = 0, end = 0; begin < body.size(); begin = end) {
    end = body.find('\n', begin) + 1;
    for (const std::string& suffix : suffixes) {
      for (std::string_view left = body.substr(begin, end - begin); !left.empty();) {
        const size_t name = own_name(left, first), part = std::min(left.find('%', 1), left.size());
        made += left.substr(0, name);
        if (name) made += suffix;
        made += left.substr(name, part - name);
        left.remove_prefix(part);
      }
    }
  }
  return made;
}

namespace {

Writer& writer_of(const Vector& x, const Vector& y) { return *(x.writer ? x.writer : y.writer); }

}  // namespace

Vector binary(std::string_view opcode, const Vector& x, const Vector& y) {
  Writer& writer = writer_of(x, y);
  const std::string type = writer.vector(x.element);
  return {&writer, writer.define(fmt::format("{} {} {}, {}", opcode, type, x.name, y.name)), x.element};
}

Vector compare(std::string_view predicate, const Vector& x, const Vector& y) {
  Vector made = binary(predicate, x, y);
  made.element = Element::kI1;
  return made;
}

Vector choose(const Vector& condition, const Vector& x, const Vector& y) {
  Writer& writer = *condition.writer;
  const std::string type = writer.vector(x.element);
  return {&writer, writer.define(fmt::format("select {}, {} {}, {} {}", condition.typed(), type, x.name, type, y.name)),
          x.element};
}

Vector convert(std::string_view opcode, const Vector& x, Element to) {
  return {x.writer, x.writer->define(fmt::format("{} {} to {}", opcode, x.typed(), x.writer->vector(to))), to};
}

Vector intrinsic(std::string_view name, const Vector& x) {
  const std::string type = x.writer->vector(x.element);
  const size_t bits = 8 * element_bytes(x.element);
  return {x.writer,
          x.writer->define(fmt::format("call {} @llvm.{}.v{}f{}({})", type, name, x.writer->width(), bits, x.typed())),
          x.element};
}

// The text form of IR writes a float as the double of the same value.
Vector constant(Element element, uint64_t bits) {
  std::string text;
  if (element == Element::kFloat)
    text = fmt::format("0x{:016X}",
                       std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))));
  else if (element == Element::kDouble) text = fmt::format("0x{:016X}", bits);
  else if (element == Element::kI64) text = fmt::format("{}", static_cast<int64_t>(bits));
  else if (element == Element::kI32) text = fmt::format("{}", static_cast<int32_t>(bits));
  else text = fmt::format("{}", static_cast<int8_t>(bits));
  return {nullptr, fmt::format("splat ({} {})", element_name(element), text), element};
}

Bits::Bits(uint32_t value) : vector(constant(Element::kI32, value)) {}
Float::Float(float value) : vector(constant(Element::kFloat, std::bit_cast<uint32_t>(value))) {}

Float operator+(const Float& x, const Float& y) { return Float(binary("fadd", x.vector, y.vector)); }
Float operator-(const Float& x, const Float& y) { return Float(binary("fsub", x.vector, y.vector)); }
Float operator*(const Float& x, const Float& y) { return Float(binary("fmul", x.vector, y.vector)); }
Float operator/(const Float& x, const Float& y) { return Float(binary("fdiv", x.vector, y.vector)); }
Mask operator<(const Float& x, const Float& y) { return {compare("fcmp olt", x.vector, y.vector)}; }
Mask operator>(const Float& x, const Float& y) { return {compare("fcmp ogt", x.vector, y.vector)}; }
Mask operator>=(const Float& x, const Float& y) { return {compare("fcmp oge", x.vector, y.vector)}; }
Mask operator==(const Float& x, const Float& y) { return {compare("fcmp oeq", x.vector, y.vector)}; }

Float multiply_add(const Float& x, const Float& y, const Float& z) { return x * y + z; }
Float absolute(const Float& x) { return Float(intrinsic("fabs", x.vector)); }
Float select(const Mask& condition, const Float& x, const Float& y) {
  return Float(choose(condition.vector, x.vector, y.vector));
}
Bits as_bits(const Float& x) { return Bits(convert("bitcast", x.vector, Element::kI32)); }
Float as_float(const Bits& x) { return Float(convert("bitcast", x.vector, Element::kFloat)); }
Float to_float(const Bits& x) { return Float(convert("sitofp", x.vector, Element::kFloat)); }

Bits operator+(const Bits& x, const Bits& y) { return Bits(binary("add", x.vector, y.vector)); }
Bits operator-(const Bits& x, const Bits& y) { return Bits(binary("sub", x.vector, y.vector)); }
Bits operator&(const Bits& x, const Bits& y) { return Bits(binary("and", x.vector, y.vector)); }
Bits operator|(const Bits& x, const Bits& y) { return Bits(binary("or", x.vector, y.vector)); }
Bits operator<<(const Bits& x, int places) {
  return Bits(binary("shl", x.vector, Bits(static_cast<uint32_t>(places)).vector));
}
Bits shift_right(const Bits& x, int places) {
  return Bits(binary("lshr", x.vector, Bits(static_cast<uint32_t>(places)).vector));
}
Bits shift_right_signed(const Bits& x, int places) {
  return Bits(binary("ashr", x.vector, Bits(static_cast<uint32_t>(places)).vector));
}
Bits select(const Mask& condition, const Bits& x, const Bits& y) {
  return Bits(choose(condition.vector, x.vector, y.vector));
}

}  // namespace transom::cpu::codegen
