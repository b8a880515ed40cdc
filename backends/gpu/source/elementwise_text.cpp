// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/elementwise_text.h"

#include <array>
#include <map>

namespace transom::gpu {
namespace {

bool is_unsigned(transom_dtype dtype) {
  return dtype == TRANSOM_BOOL || dtype == TRANSOM_UINT8 || dtype == TRANSOM_UINT32;
}

// Functions of f32 in the text, whose names in OpenCL, CUDA and HIP for f64 are those of C.
const std::map<std::string_view, std::string_view> kFunctions = {{"exp", "f_exp"},   {"expm1", "f_expm1"},
                                                                 {"log", "f_log"},   {"log1p", "f_log1p"},
                                                                 {"tanh", "f_tanh"}, {"erf", "f_erf"}};
const std::map<std::string_view, std::string_view> kOfCompiler = {
    {"sqrt", "sqrt"}, {"floor", "floor"}, {"ceil", "ceil"}, {"round", "rint"}, {"sin", "sin"}, {"cos", "cos"}};
const std::map<std::string_view, std::string_view> kRelations = {{"equal", "=="},  {"not_equal", "!="},
                                                                 {"less", "<"},    {"less_equal", "<="},
                                                                 {"greater", ">"}, {"greater_equal", ">="}};
const std::map<std::string_view, std::string_view> kBitwise = {
    {"logical_and", "&"}, {"logical_or", "|"}, {"logical_xor", "^"}};

std::string unary(KernelText& text, std::string_view op, transom_dtype dtype, const std::string& x) {
  const bool floating = backend::is_floating(dtype), wide = dtype == TRANSOM_FLOAT64;
  const char* type = compute_type(dtype);
  if (op == "neg") return floating ? fmt::format("-{}", x) : fmt::format("({})(0 - (u64){})", type, x);
  if (op == "abs") {
    if (floating) return fmt::format("fabs({})", x);
    return is_unsigned(dtype) ? x : fmt::format("({1} < 0 ? ({0})(0 - (u64){1}) : {1})", type, x);
  }
  if (op == "sign") return fmt::format("({1} != {1} ? {1} : ({0})(({1} > 0) - ({1} < 0)))", type, x);
  if (op == "is_finite") return fmt::format("(u8)({0} - {0} == 0)", x);
  if (op == "logical_not") return fmt::format("(u8)({} == 0)", x);
  if (op == "rsqrt") return fmt::format("{} / sqrt({})", wide ? "1.0" : "1.0f", x);
  if (!wide && (op == "sin" || op == "cos"))
    return fmt::format("{}({}, {})", text.use("sine_of"), x, op == "cos" ? 1 : 0);
  if (const auto found = kFunctions.find(op); found != kFunctions.end())
    return wide ? fmt::format("{}({})", op, x) : fmt::format("{}({})", text.use(found->second), x);
  return fmt::format("{}({})", kOfCompiler.at(op), x);
}

std::string binary(KernelText& text, std::string_view op, transom_dtype dtype, const std::string& x,
                   const std::string& y) {
  const bool floating = backend::is_floating(dtype);
  const char* type = compute_type(dtype);
  if (const auto found = kRelations.find(op); found != kRelations.end())
    return fmt::format("(u8)({} {} {})", x, found->second, y);
  if (const auto found = kBitwise.find(op); found != kBitwise.end())
    return fmt::format("({})({} {} {})", type, x, found->second, y);
  if (op == "add" || op == "sub" || op == "mul") {
    const char symbol = op == "add" ? '+' : op == "sub" ? '-' : '*';
    // Integers wrap around, which is defined for unsigned ones only.
    return floating ? fmt::format("{} {} {}", x, symbol, y)
                    : fmt::format("({0})((u64){1} {2} (u64){3})", type, x, symbol, y);
  }
  if (op == "max" || op == "min") {
    const char symbol = op == "max" ? '<' : '>';
    if (!floating) return fmt::format("({0} {2} {1} ? {1} : {0})", x, y, symbol);
    return fmt::format("({0} != {0} ? {0} : {1} != {1} ? {1} : {0} {2} {1} ? {1} : {0})", x, y, symbol);
  }
  if (op == "div")
    return floating ? fmt::format("{} / {}", x, y)
                    : fmt::format("{}({}, {})", text.use(fmt::format("divide_{}", type)), x, y);
  if (op == "remainder") return fmt::format("{}({}, {})", text.use(fmt::format("remainder_{}", type)), x, y);
  if (op == "pow") {
    if (!floating) return fmt::format("{}({}, {})", text.use(fmt::format("power_{}", type)), x, y);
    // OpenCL allows its pow of f32 16 units of error.
    return fmt::format("({})pow((double){}, (double){})", type, x, y);
  }
  backend::fail(TRANSOM_UNSUPPORTED, "kernels know no primitive {}", op);
}

constexpr std::array<std::string_view, 18> kUnary = {"neg",   "abs",   "sign",  "exp",   "expm1",     "log",
                                                     "log1p", "sqrt",  "rsqrt", "tanh",  "erf",       "sin",
                                                     "cos",   "floor", "ceil",  "round", "is_finite", "logical_not"};
constexpr std::array<std::string_view, 16> kBinary = {
    "add",         "sub",        "mul",         "div",   "pow",       "max",  "min",        "remainder",
    "logical_and", "logical_or", "logical_xor", "equal", "not_equal", "less", "less_equal", "greater"};

size_t operands_of(std::string_view op) {
  for (const std::string_view name : kUnary)
    if (name == op) return 1;
  for (const std::string_view name : kBinary)
    if (name == op) return 2;
  if (op == "greater_equal") return 2;
  return op == "select" ? 3 : op == "cast" ? 1 : 0;
}

}  // namespace

bool is_elementwise(std::string_view op) { return operands_of(op) != 0; }

std::string converted(KernelText& text, transom_dtype from, transom_dtype to, const std::string& x) {
  if (from == to) return x;
  const char* type = compute_type(to);
  if (to == TRANSOM_BOOL) return fmt::format("(u8)({} != 0)", x);
  if (backend::is_half(to)) {
    const bool narrow =
        from == TRANSOM_FLOAT64 || from == TRANSOM_INT32 || from == TRANSOM_INT64 || from == TRANSOM_UINT32;
    const std::string single = narrow ? fmt::format("{}((double){})", text.use("narrowed"), x) : "(float)" + x;
    return rounded(text, to, single);
  }
  if (backend::is_floating(to) || !backend::is_floating(from)) return fmt::format("({}){}", type, x);
  // Towards zero; NaN gives 0, what is too large the last integer.
  static constexpr const char* kLow[] = {"", "0", "-128", "-2147483648.0", "-9223372036854775808.0", "0"};
  static constexpr const char* kEnd[] = {"", "256", "128", "2147483648.0", "9223372036854775808.0", "4294967296.0"};
  const std::string least = neutral(text, to, "max"), most = neutral(text, to, "min");
  const char* wide = compute_type(from);
  return fmt::format("({0} != {0} ? ({1})0 : {0} <= ({5}){2} ? {3} : {0} >= ({5}){4} ? {6} : ({1}){0})", x, type,
                     kLow[to], least, kEnd[to], wide, most);
}

std::string elementwise(KernelText& text, std::string_view op, const std::vector<transom_dtype>& from, transom_dtype to,
                        const std::vector<std::string>& operands) {
  const size_t expected = operands_of(op);
  if (expected == 0 || operands.size() != expected)
    backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected an element-wise primitive of {} operands, found {}", op,
                  expected, operands.size());
  if (op == "cast") return converted(text, from[0], to, operands[0]);
  if (op == "select") return fmt::format("({} ? {} : {})", operands[0], operands[1], operands[2]);
  const std::string value =
      expected == 1 ? unary(text, op, from[0], operands[0]) : binary(text, op, from[0], operands[0], operands[1]);
  return backend::is_half(to) ? rounded(text, to, value) : value;
}

}  // namespace transom::gpu
