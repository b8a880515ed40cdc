// SPDX-License-Identifier: Apache-2.0
#include "cpu/tiles/tile_instructions.h"

#include <unordered_map>

namespace transom::cpu {

std::optional<UnaryOp> unary_op(std::string_view op) {
  static const std::unordered_map<std::string_view, UnaryOp> ops = {{"neg", kNeg},
                                                                    {"abs", kAbs},
                                                                    {"sign", kSign},
                                                                    {"exp", kExp},
                                                                    {"expm1", kExpm1},
                                                                    {"log", kLog},
                                                                    {"log1p", kLog1p},
                                                                    {"sqrt", kSqrt},
                                                                    {"rsqrt", kRsqrt},
                                                                    {"tanh", kTanh},
                                                                    {"erf", kErf},
                                                                    {"sin", kSin},
                                                                    {"cos", kCos},
                                                                    {"floor", kFloor},
                                                                    {"ceil", kCeil},
                                                                    {"round", kRound},
                                                                    {"logical_not", kLogicalNot},
                                                                    {"is_finite", kIsFinite}};
  const auto found = ops.find(op);
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BinaryOp> binary_op(std::string_view op) {
  static const std::unordered_map<std::string_view, BinaryOp> ops = {{"add", kAdd},
                                                                     {"sub", kSub},
                                                                     {"mul", kMul},
                                                                     {"div", kDiv},
                                                                     {"pow", kPow},
                                                                     {"max", kMax},
                                                                     {"min", kMin},
                                                                     {"remainder", kRemainder},
                                                                     {"logical_and", kAnd},
                                                                     {"logical_or", kOr},
                                                                     {"logical_xor", kXor},
                                                                     {"equal", kEqual},
                                                                     {"not_equal", kNotEqual},
                                                                     {"less", kLess},
                                                                     {"less_equal", kLessEqual},
                                                                     {"greater", kGreater},
                                                                     {"greater_equal", kGreaterEqual}};
  const auto found = ops.find(op);
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

Lane lane_of(transom_dtype dtype) {
  constexpr Lane kLaneOf[] = {kU8, kU8, kI8, kI32, kI64, kU32, kF32, kF32, kF32, kF64};
  return kLaneOf[dtype];
}

TileFunction tile_function(Opcode opcode) {
  const VectorKernels& kernels = vector_kernels();
  switch (opcode.kind) {
    case Opcode::kUnary:
      return kernels.unary[opcode.operation][opcode.from];
    case Opcode::kBinary:
      return kernels.binary[opcode.operation][opcode.from];
    case Opcode::kSelect:
      return kernels.select[opcode.from];
    case Opcode::kConvert:
      return kernels.convert[opcode.from][opcode.to];
    case Opcode::kToBool:
      return kernels.to_bool[opcode.from];
    case Opcode::kMultiplyAdd:
      return kernels.multiply_add;
    case Opcode::kRoundF16:
      return kernels.round_f16;
    case Opcode::kRoundBF16:
      return kernels.round_bf16;
  }
  return nullptr;
}

Lane result_lane(Opcode opcode) {
  const bool truth =
      opcode.kind == Opcode::kToBool ||
      (opcode.kind == Opcode::kUnary && (opcode.operation == kLogicalNot || opcode.operation == kIsFinite)) ||
      (opcode.kind == Opcode::kBinary && opcode.operation >= kEqual);
  if (truth) return kU8;
  return opcode.kind == Opcode::kConvert ? opcode.to : opcode.from;
}

std::optional<Opcode> cast_opcode(transom_dtype from, transom_dtype to) {
  const Lane lane = lane_of(from), result = lane_of(to);
  if (from == to) return std::nullopt;
  if (to == TRANSOM_BOOL) return Opcode{Opcode::kToBool, 0, lane};
  if (lane == kF32 && to == TRANSOM_FLOAT16) return Opcode{Opcode::kRoundF16};
  if (lane == kF32 && to == TRANSOM_BFLOAT16) return Opcode{Opcode::kRoundBF16};
  if (lane == result) return std::nullopt;
  return Opcode{Opcode::kConvert, 0, lane, result};
}

}  // namespace transom::cpu
