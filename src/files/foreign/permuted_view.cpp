// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/permuted_view.h"

#include <algorithm>
#include <cstring>

#include "base/files/files.h"

namespace transom {

TensorView permuted_view(const TensorView& view, const std::vector<int64_t>& axes) {
  const size_t rank = view.shape.size(), width = size_of(view.dtype);
  std::vector<size_t> strides(rank, width);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * static_cast<size_t>(view.shape[i]);
  TensorView result{view.dtype, {}, {}, {}};
  std::vector<size_t> steps;
  for (const int64_t axis : axes) {
    result.shape.push_back(view.shape[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  const auto copy = std::make_shared<std::vector<std::byte>>(view.bytes.size());
  result.bytes = *copy;
  result.owner = copy;
  if (copy->empty()) return result;
  // Along the last axis of the result in the innermost loop; eight rows of it at a time, whose sources lie side by
  // side.
  const auto columns = static_cast<size_t>(result.shape[rank - 1]), rows = view.bytes.size() / width / columns;
  std::vector<size_t> index(rank - 1, 0);
  std::vector<size_t> starts(rows);
  for (size_t& start : starts) {
    start = 0;
    for (size_t k = 0; k + 1 < rank; ++k) start += index[k] * steps[k];
    for (size_t k = rank - 1; k-- > 0 && ++index[k] == static_cast<size_t>(result.shape[k]);) index[k] = 0;
  }
  constexpr size_t kBlock = 8;
  for (size_t first = 0; first < rows; first += kBlock)
    for (size_t column = 0; column < columns; ++column)
      for (size_t row = first; row < std::min(rows, first + kBlock); ++row)
        std::memcpy(copy->data() + (row * columns + column) * width,
                    view.bytes.data() + starts[row] + column * steps[rank - 1], width);
  release_mapped(view.bytes);
  return result;
}

}  // namespace transom
