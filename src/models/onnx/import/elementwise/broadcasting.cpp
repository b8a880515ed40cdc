// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/elementwise/broadcasting.h"

#include <algorithm>

#include "base/error.h"
#include "transom/ops.h"

namespace transom::onnx {

std::pair<Tensor, Tensor> operands(const Call& call) {
  const Tensor& x = call.tensor(0);
  Tensor y = call.tensor(1);
  if (call.version() >= 7) return {x, y};
  if (call.integer("broadcast", 0) == 0) {
    call.require(x.shape() == y.shape(), "its inputs differ in shape, and it does not broadcast");
    return {x, y};
  }
  const int64_t axis = call.integer("axis", x.rank() - y.rank());
  call.require(axis >= 0 && axis + y.rank() <= x.rank(), "its inputs do not broadcast");
  Shape shape = y.shape();
  shape.resize(static_cast<size_t>(x.rank() - axis), 1);
  return {x, reshape(y, shape)};
}

Shape broadcast_shape(const Call& call, const Shape& x, const Shape& y) {
  Shape shape(std::max(x.size(), y.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t a = i < x.size() ? x[x.size() - 1 - i] : 1, b = i < y.size() ? y[y.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1)
      call.invalid(fmt::format("shapes {} and {} do not broadcast", to_string(x), to_string(y)));
    shape[shape.size() - 1 - i] = a == 1 ? b : a;
  }
  return shape;
}

}  // namespace transom::onnx
