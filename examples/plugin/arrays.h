// SPDX-License-Identifier: Apache-2.0
// Tensors as the example computes with them, and what it can compute.
#pragma once

#include "transom/device_plugin.hpp"

namespace example {

using namespace transom::plugin;
using Number = long double;  // holds every float64 and, of 64 bits or more, every int64

struct Array {
  int32_t dtype = TRANSOM_FLOAT32;
  Shape shape;
  std::vector<Number> at;  // in row-major order
  bool floating() const { return dtype >= TRANSOM_FLOAT16; }
};
using Arrays = std::vector<Array>;

Array load(const void* bytes, int32_t dtype, const Shape& shape);
void store(const Array& array, void* bytes);

// A primitive: outputs have their types and shapes, and hold zeros.
using Compute = void (*)(const Arrays& in, const Attributes& attributes, Arrays& out);
Compute find_operation(const std::string& name);  // null: there is none

}  // namespace example
