// SPDX-License-Identifier: Apache-2.0
// Values of the operations that run on the host between two recipes, because no kernel does them. Plain rather than
// fast: few operations come here.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hpu/lowering/node.h"

namespace transom::hpu {

struct HostArray {
  Type type;
  std::vector<double> real;      // of floating types
  std::vector<int64_t> integer;  // of the others

  explicit HostArray(Type t);
  bool floating() const { return is_floating(type.dtype); }
  double number(size_t i) const { return floating() ? real[i] : static_cast<double>(integer[i]); }
  // Rounds to the element type, or wraps.
  void set(size_t i, double value);
  void set(size_t i, int64_t value);
  void take(size_t i, const HostArray& from, size_t j);  // an element of the same type
};

HostArray decode(const std::byte* bytes, const Type& type);
void encode(const HostArray& array, std::byte* bytes);

using HostOperation = void (*)(const Node& node, const std::vector<const HostArray*>& inputs,
                               std::vector<HostArray>& outputs);
using HostTable = std::unordered_map<std::string_view, HostOperation>;

void add_host_elementwise(HostTable& table);
void add_host_movement(HostTable& table);
void add_host_indexing(HostTable& table);
void add_host_reductions(HostTable& table);
void add_host_products(HostTable& table);
void add_host_random(HostTable& table);

// The outputs of a node. Throws Failure(TRANSOM_UNSUPPORTED) for an operation that it does not know.
std::vector<HostArray> interpret(const Node& node, const std::vector<const HostArray*>& inputs);
bool host_knows(std::string_view op);

// ---- for the operations
Shape strides_of(const Shape& shape);
// A tensor seen as [before, length, after] around an axis.
struct Around {
  int64_t before, length, after;
  Around(const Shape& shape, int64_t axis)
      : before(product(shape, 0, static_cast<size_t>(axis))),
        length(shape[static_cast<size_t>(axis)]),
        after(product(shape, static_cast<size_t>(axis) + 1, shape.size())) {}
};
// Calls visit(index) for every index of the shape in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, Visit&& visit) {
  if (product(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    visit(std::as_const(index));
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}
inline int64_t offset_of(const Shape& index, const Shape& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

}  // namespace transom::hpu
