// SPDX-License-Identifier: Apache-2.0
// Tensors as lines of elements for codelets of our own: whole lines on one tile, some for each vertex.
#pragma once

#include <functional>
#include <string>

#include "ipu/lowering/lowering.h"

namespace transom::ipu {

// [count, length], and which lines a vertex takes.
struct Lines {
  size_t count, length;
  struct Part {
    size_t begin, end;
    unsigned tile;
  };
  std::vector<Part> parts;
};

Lines lines_of(const Lowering& lowering, size_t count, size_t length, const poplar::Target& target);
// A variable of `width` elements for each line, on the tiles of the lines.
Tensor line_variable(Lowering& lowering, const Lines& lines, poplar::Type type, size_t width, const std::string& name);
// One vertex a part: connect(vertex, part) sets its fields.
void add_vertices(Lowering& lowering, const Lines& lines, const std::string& codelet, const std::string& name,
                  const std::function<void(const poplar::VertexRef&, const Lines::Part&)>& connect);
// The elements of a part's lines.
Tensor part_of(const Tensor& lines, const Lines::Part& part);

}  // namespace transom::ipu
