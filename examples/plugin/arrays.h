// SPDX-License-Identifier: Apache-2.0
// Tensors as the example computes with them, and what it can compute.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transom/device_plugin.h"

namespace example {

using Shape = std::vector<int64_t>;
using Number = long double;  // holds every float64 and, of 64 bits or more, every int64

struct Array {
  int32_t dtype = TRANSOM_FLOAT32;
  Shape shape;
  std::vector<Number> at;  // in row-major order
  bool floating() const { return dtype >= TRANSOM_FLOAT16; }
};
using Arrays = std::vector<Array>;

// The attributes of a node, copied: the host's are gone after compile().
struct Attributes {
  std::map<std::string, int64_t> ints;
  std::map<std::string, double> floats;
  std::map<std::string, Shape> lists;
};

int64_t count_of(const Shape& shape);
size_t size_of(int32_t dtype);  // in bytes; 0 for a type that this device has not
Array load(const void* bytes, int32_t dtype, const Shape& shape);
void store(const Array& array, void* bytes);

// A primitive: outputs have their types and shapes, and hold zeros.
using Compute = void (*)(const Arrays& in, const Attributes& attributes, Arrays& out);
Compute find_operation(const std::string& name);  // null: there is none

}  // namespace example
