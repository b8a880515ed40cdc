// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile_instructions.h"

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

TileFunction cast_function(transom_dtype from, transom_dtype to) {
  const VectorKernels& kernels = vector_kernels();
  if (from == to) return nullptr;
  if (to == TRANSOM_BOOL) return kernels.to_bool[lane_of(from)];
  if (lane_of(from) == kF32 && to == TRANSOM_FLOAT16) return kernels.round_f16;
  if (lane_of(from) == kF32 && to == TRANSOM_BFLOAT16) return kernels.round_bf16;
  if (lane_of(from) == lane_of(to)) return nullptr;
  return kernels.convert[lane_of(from)][lane_of(to)];
}

}  // namespace transom::cpu
