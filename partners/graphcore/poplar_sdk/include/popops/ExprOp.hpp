// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace popops::expr {

enum class UnaryOpType {
  ABSOLUTE,
  BITWISE_NOT,
  CEIL,
  COS,
  ERF,
  EXPONENT,
  EXPONENT_MINUS_ONE,
  FLOOR,
  INVERSE,
  IS_FINITE,
  IS_INF,
  IS_NAN,
  LOGARITHM,
  LOGARITHM_ONE_PLUS,
  LOGICAL_NOT,
  NEGATE,
  NEARBY_INT,
  SIGNUM,
  SIN,
  SQRT,
  SQUARE,
  TANH,
  SIGMOID,
  RSQRT,
  TRUNC
};
enum class BinaryOpType {
  ADD,
  BITWISE_AND,
  BITWISE_OR,
  BITWISE_XOR,
  DIVIDE,
  EQUAL,
  GREATER_THAN_EQUAL,
  GREATER_THAN,
  LESS_THAN_EQUAL,
  LESS_THAN,
  LOGICAL_AND,
  LOGICAL_OR,
  MAXIMUM,
  MINIMUM,
  MULTIPLY,
  NOT_EQUAL,
  POWER,
  REMAINDER,
  SHIFT_LEFT,
  SHIFT_RIGHT,
  SUBTRACT
};
enum class TernaryOpType { CLAMP, SELECT };

}  // namespace popops::expr
