// SPDX-License-Identifier: Apache-2.0
// What the compiler knows of an operation: one record, in one place (src/graph/ops). A primitive has `evaluate`, a
// composite has `decompose`; everything else that an operation can do follows from its record.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/ir/attributes.h"
#include "transom/tensor.h"

namespace transom {

struct Operation;

// What the shape rule sees: the inputs' types and the attributes. Its checks name the operation and both sides.
struct Inference {
  const Operation& operation;
  std::span<const Type> inputs;
  const Attributes& attributes;

  const Shape& shape(size_t i) const { return inputs[i].shape; }
  DType dtype(size_t i) const { return inputs[i].dtype; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(inputs[i].shape.size()); }
};

// The values of a tensor for the float64 reference: `real` for floating types, `integer` for the others and bool.
struct Array {
  Type type;
  std::vector<double> real;
  std::vector<int64_t> integer;

  explicit Array(Type t = {});
  bool floating() const { return is_floating(type.dtype); }
  double get(int64_t i) const;
  void set(int64_t i, double value);  // not yet rounded to the dtype; integers truncate, stop at the ends, NaN is 0
};

// What the gradient rule sees. `wanted(i)` says whether the gradient for input i is of use; the rule returns one tensor
// an input, undefined where it is zero or not wanted.
struct GradientRequest {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> cotangents;  // one an output; undefined: zero
  const Attributes& attributes;
  std::span<const bool> wants;
  bool wanted(size_t i) const { return wants[i]; }
};

// One case to try an operation with: in tests, in `transom certify`, in the documentation.
struct Sample {
  std::vector<Type> inputs;
  Attributes attributes;
  // The values drawn for every floating input lie in [low, high]; integers are drawn from [0, index_limit).
  double low = -2.0, high = 2.0;
  int64_t index_limit = 2;
};

// What the cost rules see.
struct CostRequest {
  std::span<const Type> inputs, outputs;
  const Attributes& attributes;
};

// What the error of a device is measured by.
enum class ErrorScale {
  kExact,    // none is allowed: the reference rounded to the element type
  kElement,  // units in the last place of the expected element
  kTerms,    // of the expected element, and of the sum of its terms' magnitudes in the type that sums
  kTensor,   // units in the last place of the largest expected element of the tensor
};
struct ErrorBound {
  ErrorScale scale = ErrorScale::kExact;
  double units = 0;  // units in the last place of the output's element type
};
struct ErrorBounds {
  ErrorBound wide, half;  // of f32 and f64; of the 16-bit types
};

enum class OperationKind { kPrimitive, kComposite };

// What a kernel of the operation does most: profiles and explanations sort nodes by it.
enum class Category {
  kByTraits,  // kElements if element-wise, kMovement if it only moves, else kOther
  kElements,
  kRows,
  kMovement,
  kProducts,
  kAttention,
  kOther
};

// How an operation walks the rows of a tensor, which lie along its last axis. What is row-wise may stand in a
// row_fusion: every device that supports row_fusion computes it there some rows at a time.
enum class RowWise {
  kNo,
  kEachRow,        // a row of the output needs that row of the inputs; inputs of one row are the same for all rows
  kReduction,      // one number for each row, where the attribute `axes` is the last axis
  kAndColumnSums,  // the first output as kEachRow; the others are sums over all rows
};

// What autocast does with the floating inputs.
enum class AutocastClass {
  kAsGiven,
  kLow,   // products: in the 16-bit type
  kFull,  // norms, softmax, losses: in f32
};

struct Operation {
  std::string_view name;
  OperationKind kind = OperationKind::kPrimitive;
  std::string_view documentation;

  // Traits. Passes, the memory plan, profiles and certify ask these, never the name.
  bool elementwise = false;     // output element i needs only input elements i; all shapes are equal
  bool stops_gradient = false;  // its outputs count as constants when gradients are taken
  // Its gradient in 16 bits jumps where a value that a device rounds differently crosses a limit, or is made of f32
  // results of rounded values: no bound holds there, and certify tries none.
  bool gradient_jumps = false;
  bool moves_only = false;  // moves, repeats or casts elements, and computes nothing
  bool view = false;        // its output is its input's memory under another type
  bool collective = false;  // computed by several processes together, in the order of the attribute `order`
  int in_place = -1;        // writes into a part of this input: output 0 may take its memory; -1: of no input
  RowWise row_wise = RowWise::kNo;
  Category category = Category::kByTraits;
  AutocastClass autocast = AutocastClass::kAsGiven;
  // Floating-point operations of a node. Null: none if it only moves, one an output element if element-wise, else those
  // of its decomposition.
  double (*flops)(const CostRequest&) = nullptr;
  // Bytes that a kernel reads and writes at least. Null: every input and output once; none if it is a view.
  double (*bytes)(const CostRequest&) = nullptr;
  // How far a device may be from the float64 values. Null: not at all for primitives; for composites 32 units of the
  // largest element, 8 in 16 bits.
  std::optional<ErrorBounds> error = std::nullopt;

  std::vector<Type> (*infer)(const Inference&) = nullptr;
  void (*evaluate)(std::span<const Array> inputs, const Attributes&, std::span<Array> outputs) = nullptr;
  std::vector<Tensor> (*decompose)(std::span<const Tensor> inputs, const Attributes&) = nullptr;
  // Null: not differentiable (a primitive), or differentiated through its decomposition (a composite).
  std::vector<Tensor> (*gradient)(const GradientRequest&) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
};

[[noreturn]] void fail_check(const Inference& inference, const std::string& text);

// Shapes and types as error messages show them; other values as they are.
template <typename Value>
using Shown = std::conditional_t<std::is_same_v<Value, Shape> || std::is_same_v<Value, Type>, std::string, Value>;
template <typename Value>
Shown<Value> shown(const Value& value) {
  if constexpr (!std::is_same_v<Shown<Value>, Value>) return to_string(value);
  else return value;
}

// Throws Error unless the condition holds; the text is preceded by the operation's name and the module's path. It is
// made only then: rules are checked whenever a node is made.
template <typename... Values>
void check(const Inference& inference, bool condition, fmt::format_string<Shown<Values>...> text,
           const Values&... values) {
  if (!condition) [[unlikely]]
    fail_check(inference, fmt::format<Shown<Values>...>(text, shown(values)...));
}

// All operations, sorted by name.
std::span<const Operation* const> all_operations();
const Operation& find_operation(std::string_view name);  // throws for unknown names

}  // namespace transom
