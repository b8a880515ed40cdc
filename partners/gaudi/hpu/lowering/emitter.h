// SPDX-License-Identifier: Apache-2.0
// Writes nodes into a RecipeGraph in the terms of this project: row-major shapes and axes counted from the slowest. The
// graph compiler counts from the fastest; that turn is made here and nowhere else.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "hpu/lowering/node.h"
#include "hpu/recipe/recipe_graph.h"

namespace transom::hpu {

constexpr size_t kMaximumRank = 5;

// Element types that kernels know; a bool is an i8, an i64 an i32 unless int64 kernels were asked for.
enum class Element { kF32, kBF16, kF16, kI32, kI64, kI8, kU8 };

size_t size_of(Element element);
const char* suffix_of(Element element);  // "f32"
inline bool is_floating(Element element) { return element <= Element::kF16; }

struct Value {
  int tensor = kNoTensor;
  Element element{};
  Shape shape;  // 1 to 5 extents, none of them 0
};

// Params with every byte 0, those between the fields too: they are part of what recipes are found by.
template <typename Params>
Params zeroed() {
  Params params;
  std::memset(static_cast<void*>(&params), 0, sizeof params);
  return params;
}

// What cannot be said in nodes; the caller has the host do it.
[[noreturn]] void unsupported(const std::string& what);

class Emitter {
 public:
  Emitter(synDeviceType device, bool int64) : device_(device), int64_(int64) {}

  RecipeGraph graph;

  synDeviceType device() const { return device_; }
  Element element_of(transom_dtype dtype) const;      // Failure(TRANSOM_UNSUPPORTED) where no kernel has it
  static Shape canonical(const Shape& shape);         // as it lies in a tensor: flat where the rank is too high
  Value tensor(Element element, const Shape& shape);  // without contents yet

  // A node of one output. The guid is whole; typed() adds the suffix of a type.
  Value node(const std::string& guid, const std::vector<Value>& inputs, Element element, const Shape& shape);
  template <typename Params>
  Value node(const std::string& guid, const std::vector<Value>& inputs, Element element, const Shape& shape,
             const Params& params) {
    return nodes(guid, inputs, {{element, shape}}, bytes_of(params))[0];
  }
  std::vector<Value> nodes(const std::string& guid, const std::vector<Value>& inputs,
                           const std::vector<std::pair<Element, Shape>>& outputs, std::string params = {},
                           std::vector<std::string> in_layouts = {}, std::vector<std::string> out_layouts = {});
  static std::string typed(std::string_view name, Element element) {
    return std::string(name) + "_" + suffix_of(element);
  }
  template <typename Params>
  static std::string bytes_of(const Params& params) {
    return std::string(reinterpret_cast<const char*>(&params), sizeof params);
  }

  // Element by element; extents of 1 are repeated.
  Value elementwise(const std::string& guid, const std::vector<Value>& inputs, Element element);
  Value unary(std::string_view name, const Value& x);
  Value binary(std::string_view name, const Value& x, const Value& y);
  Value compare(std::string_view name, const Value& x, const Value& y);  // -> i8
  Value where(const Value& condition, const Value& x, const Value& y);
  Value cast(const Value& x, Element element);  // floating to integer truncates

  // A number that stands for a tensor of this rank (extents 1); or a whole tensor of it; or given elements.
  Value number(Element element, double value, size_t rank);
  Value full(Element element, double value, const Shape& shape);
  Value integers(const std::vector<int32_t>& values);
  Value range(int64_t count);  // i32 [count]

  Value reshape(const Value& x, const Shape& shape);
  Value transpose(const Value& x, const std::vector<size_t>& permutation);  // output axis i is input axis [i]
  Value broadcast(const Value& x, const Shape& shape);                      // extents of 1 are repeated
  Value slice(const Value& x, const Shape& starts, const Shape& limits, const Shape& strides);
  Value concatenate(const std::vector<Value>& parts, size_t axis);
  Value gather(const Value& x, const Value& indices, size_t axis);  // indices i32 [n]
  Value reduce(std::string_view name, const Value& x, const std::vector<size_t>& axes,
               Element element);  // axes stay, as 1
  Value product(const Value& x, const Value& y, bool transpose_x, bool transpose_y, Element element,
                const Value* bias = nullptr);  // [M, K] [K, N] or [B, M, K] [B, K, N]

 private:
  synDeviceType device_;
  bool int64_;
  std::map<std::tuple<Element, double, size_t>, Value> numbers_;
  std::map<int64_t, Value> ranges_;
};

}  // namespace transom::hpu
