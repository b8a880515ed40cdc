// SPDX-License-Identifier: Apache-2.0
// MessagePack as flax.serialization writes it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

// Nested maps of arrays, written one array at a time.
class FlaxWriter {
 public:
  // An array under keys joined with '/'; `values` gives its bytes when the file is written. Errors: keys that are
  // taken, types that flax lacks.
  void add(std::string_view path, DType dtype, std::vector<int64_t> shape, std::function<TensorView()> values);
  // The file appears complete or not at all.
  void write(const fs::path& path) const;

 private:
  struct Array {
    DType dtype;
    std::vector<int64_t> shape;
    std::function<TensorView()> values;
  };
  struct Node {
    std::map<std::string, Node, std::less<>> children;
    int64_t array = -1;
  };
  void write_node(const Node& node, AtomicFile& file) const;
  void write_array(const Array& array, AtomicFile& file) const;

  Node root_;
  std::vector<Array> arrays_;
};

}  // namespace transom
