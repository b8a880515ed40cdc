// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/instructions.h"

#include <fmt/format.h>

// The functions of the vector loops once more, over values that write instructions.
#define TRANSOM_LEVEL codegen
#include "cpu/vector/half.h"
#include "cpu/vector/math.h"

namespace transom::cpu::codegen {

Float times_power_of_two(const Float& x, const Float& n, const Bits& integer) {
  Writer& writer = *x.vector.writer;
  if (writer.width() != 16) return times_power_of_two<Float>(x, n, integer);
  const std::string type = writer.vector(Element::kFloat);
  return Float({&writer,
                writer.define(fmt::format("call {0} @llvm.x86.avx512.mask.scalef.ps.512({1}, {2}, {0} zeroinitializer, "
                                          "i16 -1, i32 4)",  // all lanes, rounded as usual
                                          type, x.vector.typed(), n.vector.typed())),
                Element::kFloat});
}

namespace {

bool is_float(Lane lane) { return lane == kF32 || lane == kF64; }
bool is_signed(Lane lane) { return lane == kI8 || lane == kI32 || lane == kI64; }

Vector zero(Lane lane) { return constant(element_of(lane), 0); }
Vector number(Lane lane, double value) {
  if (lane == kF64) return constant(Element::kDouble, __builtin_bit_cast(uint64_t, value));
  if (lane == kF32) return constant(Element::kFloat, __builtin_bit_cast(uint32_t, static_cast<float>(value)));
  return constant(element_of(lane), static_cast<uint64_t>(static_cast<int64_t>(value)));
}

Vector unordered(const Vector& x) { return compare("fcmp uno", x, x); }

Vector less(Lane lane, const Vector& x, const Vector& y) {
  return compare(is_float(lane) ? "fcmp olt" : is_signed(lane) ? "icmp slt" : "icmp ult", x, y);
}
Vector greater(Lane lane, const Vector& x, const Vector& y) {
  return compare(is_float(lane) ? "fcmp ogt" : is_signed(lane) ? "icmp sgt" : "icmp ugt", x, y);
}

Vector function_of_f32(int operation, const Vector& x) {
  const Float value{x};
  switch (operation) {
    case kExp:
      return exp_value(value).vector;
    case kExpm1:
      return expm1_value(value).vector;
    case kLog:
      return log_value(value).vector;
    case kLog1p:
      return log1p_value(value).vector;
    case kTanh:
      return tanh_value(value).vector;
    default:
      return erf_value(value).vector;
  }
}

Vector unary(int operation, Lane lane, const Vector& x) {
  switch (operation) {
    case kNeg:
      if (!is_float(lane)) return binary("sub", zero(lane), x);
      return {x.writer, x.writer->define("fneg " + x.typed()), x.element};
    case kAbs:
      if (is_float(lane)) return intrinsic("fabs", x);
      if (!is_signed(lane)) return x;
      return choose(less(lane, x, zero(lane)), binary("sub", zero(lane), x), x);
    case kSign: {
      const Vector above = choose(greater(lane, x, zero(lane)), number(lane, 1), zero(lane));
      if (!is_float(lane) && !is_signed(lane)) return above;
      const Vector sign = choose(less(lane, x, zero(lane)), number(lane, -1), above);
      return is_float(lane) ? choose(unordered(x), x, sign) : sign;
    }
    case kSqrt:
      return intrinsic("sqrt", x);
    case kRsqrt:
      return binary("fdiv", {x.writer, number(lane, 1).name, x.element}, intrinsic("sqrt", x));
    case kFloor:
      return intrinsic("floor", x);
    case kCeil:
      return intrinsic("ceil", x);
    case kRound:
      return intrinsic("rint", x);
    case kLogicalNot:
      return compare(is_float(lane) ? "fcmp oeq" : "icmp eq", x, zero(lane));
    case kIsFinite:
      if (is_float(lane)) return compare("fcmp oeq", binary("fsub", x, x), zero(lane));
      return compare("icmp eq", x, x);
    default:
      return function_of_f32(operation, x);
  }
}

Vector comparison(int operation, Lane lane, const Vector& x, const Vector& y) {
  switch (operation) {
    case kEqual:
      return compare(is_float(lane) ? "fcmp oeq" : "icmp eq", x, y);
    case kNotEqual:
      return compare(is_float(lane) ? "fcmp une" : "icmp ne", x, y);
    case kLess:
      return less(lane, x, y);
    case kLessEqual:
      return compare(is_float(lane) ? "fcmp ole" : is_signed(lane) ? "icmp sle" : "icmp ule", x, y);
    case kGreater:
      return greater(lane, x, y);
    default:
      return compare(is_float(lane) ? "fcmp oge" : is_signed(lane) ? "icmp sge" : "icmp uge", x, y);
  }
}

// constant() writes a float as the bits of its double: those without a number, and infinities, begin so. What is no
// constant has a name of LLVM's; a writer says nothing, since a fusion's constants have one.
bool is_finite_constant(const Vector& x) {
  return !x.name.starts_with('%') && x.name.find(" 0x7FF") == std::string::npos &&
         x.name.find(" 0xFFF") == std::string::npos;
}

Vector arithmetic(int operation, Lane lane, const Vector& x, const Vector& y) {
  const bool floats = is_float(lane);
  switch (operation) {
    case kAdd:
      return binary(floats ? "fadd" : "add", x, y);
    case kSub:
      return binary(floats ? "fsub" : "sub", x, y);
    case kMul:
      return binary(floats ? "fmul" : "mul", x, y);
    case kDiv:
      return binary("fdiv", x, y);
    case kMax:
    case kMin: {
      // Beside a constant one comparison says both: x stays where it is beyond, or no number.
      if (floats && is_finite_constant(y))
        return choose(compare(operation == kMax ? "fcmp ugt" : "fcmp ult", x, y), x, y);
      const Vector better = operation == kMax ? greater(lane, x, y) : less(lane, x, y);
      const Vector chosen = choose(better, x, y);  // y if either is NaN
      return floats ? choose(unordered(x), x, chosen) : chosen;
    }
    case kAnd:
      return binary("and", x, y);
    case kOr:
      return binary("or", x, y);
    case kXor:
      return binary("xor", x, y);
    default:
      return comparison(operation, lane, x, y);
  }
}

// Numbers that a byte holds are converted by instructions; what becomes of others the loops do not say either.
bool to_byte(Lane from, Lane to) { return from == kF32 && (to == kU8 || to == kI8); }

Vector conversion(Lane from, Lane to, const Vector& x) {
  const Element element = element_of(to);
  const size_t before = element_bytes(element_of(from)), after = element_bytes(element);
  if (to_byte(from, to)) return convert("trunc", convert("fptosi", x, Element::kI32), element);
  if (is_float(from)) return from == to ? x : convert(to == kF64 ? "fpext" : "fptrunc", x, element);
  if (is_float(to)) return convert(is_signed(from) ? "sitofp" : "uitofp", x, element);
  if (before == after) return x;
  return convert(after < before ? "trunc" : is_signed(from) ? "sext" : "zext", x, element);
}

}  // namespace

Element element_of(Lane lane) {
  constexpr Element kElements[kLanes] = {Element::kI8,  Element::kI8,    Element::kI32,   Element::kI64,
                                         Element::kI32, Element::kFloat, Element::kDouble};
  return kElements[lane];
}

bool is_call(Opcode opcode) {
  if (opcode.kind == Opcode::kConvert)
    return is_float(opcode.from) && !is_float(opcode.to) && !to_byte(opcode.from, opcode.to);
  if (opcode.kind == Opcode::kUnary) {
    if (opcode.operation == kSin || opcode.operation == kCos) return true;
    const bool library = opcode.operation == kExp || opcode.operation == kExpm1 || opcode.operation == kLog ||
                         opcode.operation == kLog1p || opcode.operation == kTanh || opcode.operation == kErf;
    return library && opcode.from == kF64;
  }
  if (opcode.kind != Opcode::kBinary) return false;
  return opcode.operation == kPow || opcode.operation == kRemainder ||
         (opcode.operation == kDiv && !is_float(opcode.from));
}

Vector as_mask(const Vector& x) {
  if (x.element == Element::kI1) return x;
  const bool floats = x.element == Element::kFloat || x.element == Element::kDouble;
  return compare(floats ? "fcmp une" : "icmp ne", x, constant(x.element, 0));
}

Vector as_bytes(const Vector& x) { return x.element == Element::kI1 ? convert("zext", x, Element::kI8) : x; }

Vector instruction(Opcode opcode, const Vector& a, const Vector& b, const Vector& c) {
  switch (opcode.kind) {
    case Opcode::kUnary:
      return unary(opcode.operation, opcode.from, as_bytes(a));
    case Opcode::kBinary:
      if (a.element == Element::kI1 && b.element == Element::kI1 && opcode.operation >= kAnd &&
          opcode.operation <= kXor)
        return arithmetic(opcode.operation, opcode.from, a, b);
      return arithmetic(opcode.operation, opcode.from, as_bytes(a), as_bytes(b));
    case Opcode::kSelect:
      return choose(as_mask(a), as_bytes(b), as_bytes(c));
    case Opcode::kConvert:
      return conversion(opcode.from, opcode.to, as_bytes(a));
    case Opcode::kToBool:
      return as_mask(a);
    case Opcode::kMultiplyAdd:
      return binary("fadd", binary("fmul", a, b), c);
    case Opcode::kRoundF16:
      return widened(narrowed(a, TRANSOM_FLOAT16), TRANSOM_FLOAT16);
    case Opcode::kRoundBF16:
      break;
  }
  return as_float(bf16_bits(Float(a)) << 16).vector;
}

Element stored_element(transom_dtype dtype) {
  if (dtype == TRANSOM_FLOAT16) return Element::kHalf;
  if (dtype == TRANSOM_BFLOAT16) return Element::kI16;
  return element_of(lane_of(dtype));
}

Vector widened(const Vector& stored, transom_dtype dtype) {
  if (dtype == TRANSOM_FLOAT16) return convert("fpext", stored, Element::kFloat);
  if (dtype == TRANSOM_BFLOAT16) return as_float(Bits(convert("zext", stored, Element::kI32)) << 16).vector;
  return stored;
}

// bf16 in whole numbers: the processor's own instruction takes subnormal numbers for 0.
Vector narrowed(const Vector& lane, transom_dtype dtype) {
  if (dtype == TRANSOM_FLOAT16) return convert("fptrunc", lane, Element::kHalf);
  if (dtype == TRANSOM_BFLOAT16) return convert("trunc", bf16_bits(Float(lane)).vector, Element::kI16);
  return as_bytes(lane);
}

}  // namespace transom::cpu::codegen
