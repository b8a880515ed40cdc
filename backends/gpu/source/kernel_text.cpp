// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/kernel_text.h"

#include <bit>
#include <limits>

#include "gpu/source/functions.h"
#include "gpu/source/prelude.h"

namespace transom::gpu {
namespace {

// Every OpenCL device takes 1024 bytes of arguments: half for numbers, half for what follows them. An address may take
// two arguments.
constexpr size_t kMostArguments = 120;

}  // namespace

std::string KernelText::address(const Operand& operand, std::string_view type) {
  for (size_t i = 0; i < operands_.size(); ++i)
    if (operands_[i] == operand && operand_types_[i] == type) return fmt::format("b{}", i);
  operands_.push_back(operand);
  operand_types_.emplace_back(type);
  return fmt::format("b{}", operands_.size() - 1);
}

std::string KernelText::number(int64_t value) {
  if (!has_room()) return fmt::format("((idx){}L)", value);
  numbers_.push_back(value);
  is_bits_.push_back(false);
  return fmt::format("n{}", numbers_.size() - 1);
}

bool KernelText::has_room() const { return 2 * operands_.size() + numbers_.size() < kMostArguments / 2; }

std::string KernelText::bits(int64_t value) {
  numbers_.push_back(value);
  is_bits_.push_back(true);
  return fmt::format("n{}", numbers_.size() - 1);
}

void KernelText::local(std::string_view type, std::string_view name, int64_t count) {
  locals_ += fmt::format("LOCAL {} {}[{}];\n", type, name, count);
}

std::string_view KernelText::use(std::string_view function) { return *functions_.emplace(function).first; }

std::string KernelText::vector_type(std::string_view type, int64_t count) {
  types_.insert(
      fmt::format("typedef struct ALIGNED({2}) {{ {0} at[{1}]; }} {0}_{1};\n", type, count, size_of(type) * count));
  return fmt::format("{}_{}", type, count);
}

std::string KernelText::cut(size_t from) {
  std::string text = body_.substr(from);
  body_.resize(from);
  return text;
}

std::string KernelText::head(Dialect dialect) const {
  std::string text(prelude(dialect));
  text += wide_ ? "typedef i64 idx;\n" : "typedef i32 idx;\n";
  for (const std::string& type : types_) text += type;
  return text + definitions(functions_);
}

std::string KernelText::text(Dialect dialect) const {
  std::string text = head(dialect);
  text += fmt::format("KERNEL({}) {}(", kGroup, kKernelName);
  const bool objects = dialect == Dialect::kOpenCLObjects;
  for (size_t i = 0; i < operands_.size(); ++i)
    text += objects ? fmt::format("{}GLOBAL char* m{}, i64 o{}", i ? ", " : "", i, i)
                    : fmt::format("{}GLOBAL {}* b{}", i ? ", " : "", operand_types_[i], i);
  for (size_t i = 0; i < numbers_.size(); ++i)
    text += fmt::format("{}i64 {}{}", i || !operands_.empty() ? ", " : "", is_bits_[i] ? "n" : "w", i);
  text += ") {\n" + locals_;
  if (functions_.contains("fragments")) text += "MATRIX_MEMORY\n";
  for (size_t i = 0; objects && i < operands_.size(); ++i)
    text += fmt::format("GLOBAL {0}* b{1} = (GLOBAL {0}*)(m{1} + o{1});\n", operand_types_[i], i);
  for (size_t i = 0; i < numbers_.size(); ++i)
    if (!is_bits_[i]) text += fmt::format("const idx n{} = (idx)w{};\n", i, i);
  return text + body_ + "}\n";
}

const char* storage_type(transom_dtype dtype) {
  static constexpr const char* kNames[] = {"u8", "u8", "i8", "i32", "i64", "u32", "u16", "u16", "float", "double"};
  return kNames[dtype];
}

int64_t size_of(std::string_view type) {
  if (type == "double" || type.ends_with("64")) return 8;
  return type == "u8" || type == "i8" ? 1 : type == "u16" ? 2 : 4;
}

const char* compute_type(transom_dtype dtype) { return backend::is_half(dtype) ? "float" : storage_type(dtype); }

std::string load(KernelText& text, transom_dtype dtype, const std::string& address, const std::string& place) {
  if (dtype == TRANSOM_FLOAT16) return fmt::format("{}({}[{}])", text.use("from_f16"), address, place);
  if (dtype == TRANSOM_BFLOAT16) return fmt::format("{}({}[{}])", text.use("from_bf16"), address, place);
  return fmt::format("{}[{}]", address, place);
}

std::string store(KernelText& text, transom_dtype dtype, const std::string& address, const std::string& place,
                  const std::string& value) {
  if (dtype == TRANSOM_FLOAT16) return fmt::format("{}[{}] = {}({});", address, place, text.use("to_f16"), value);
  if (dtype == TRANSOM_BFLOAT16) return fmt::format("{}[{}] = {}({});", address, place, text.use("to_bf16"), value);
  return fmt::format("{}[{}] = {};", address, place, value);
}

std::string rounded(KernelText& text, transom_dtype dtype, const std::string& value) {
  if (dtype == TRANSOM_FLOAT16) return fmt::format("{}({}({}))", text.use("from_f16"), text.use("to_f16"), value);
  if (dtype == TRANSOM_BFLOAT16) return fmt::format("{}({}({}))", text.use("from_bf16"), text.use("to_bf16"), value);
  return value;
}

std::string literal(KernelText& text, transom_dtype dtype, double value) {
  if (dtype == TRANSOM_FLOAT64) return fmt::format("as_double((u64)0x{:x}UL)", std::bit_cast<uint64_t>(value));
  if (!backend::is_floating(dtype)) return literal(text, dtype, static_cast<int64_t>(value));
  // An f16 or bf16 is rounded once: from the nearest f32, since constants come from few digits.
  return rounded(text, dtype, fmt::format("as_float(0x{:x}u)", std::bit_cast<uint32_t>(static_cast<float>(value))));
}

std::string literal(KernelText& text, transom_dtype dtype, int64_t value) {
  if (backend::is_floating(dtype)) return literal(text, dtype, static_cast<double>(value));
  return fmt::format("(({})(u64)0x{:x}UL)", storage_type(dtype), static_cast<uint64_t>(value));
}

std::string argument(KernelText& text, transom_dtype dtype, double value) {
  if (!text.has_room()) return literal(text, dtype, value);
  if (!backend::is_floating(dtype)) return argument(text, dtype, static_cast<int64_t>(value));
  if (dtype == TRANSOM_FLOAT64) return fmt::format("as_double((u64){})", text.bits(std::bit_cast<int64_t>(value)));
  const std::string bits = text.bits(std::bit_cast<uint32_t>(static_cast<float>(value)));
  return rounded(text, dtype, fmt::format("as_float((u32){})", bits));
}

std::string argument(KernelText& text, transom_dtype dtype, int64_t value) {
  if (backend::is_floating(dtype)) return argument(text, dtype, static_cast<double>(value));
  if (!text.has_room()) return literal(text, dtype, value);
  return fmt::format("(({}){})", storage_type(dtype), text.bits(value));
}

std::string neutral(KernelText& text, transom_dtype dtype, std::string_view reduction) {
  const bool sum = reduction == "sum", max = reduction == "max";
  const double infinity = std::numeric_limits<double>::infinity();
  if (sum) return literal(text, dtype, int64_t{0});
  if (backend::is_floating(dtype)) return literal(text, dtype, max ? -infinity : infinity);
  static constexpr int64_t kLow[] = {0, 0, INT8_MIN, INT32_MIN, INT64_MIN, 0};
  static constexpr int64_t kHigh[] = {1, UINT8_MAX, INT8_MAX, INT32_MAX, INT64_MAX, UINT32_MAX};
  return literal(text, dtype, max ? kLow[dtype] : kHigh[dtype]);
}

}  // namespace transom::gpu
