// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions of types that the matrix engines do not have, and of three spatial axes.
#include <algorithm>

#include "hpu/host/host_array.h"

namespace transom::hpu {
namespace {

using Inputs = std::vector<const HostArray*>;
using Outputs = std::vector<HostArray>;

size_t as_size(int64_t value) { return static_cast<size_t>(value); }

void dot_general(const Node& node, const Inputs& in, Outputs& out) {
  struct Side {
    Shape batch, free, contract;  // strides of these axes
  } sides[2];
  Shape result, contracted;
  for (size_t s = 0; s < 2; ++s) {
    const Shape& shape = in[s]->type.shape;
    const Shape strides = strides_of(shape);
    const Shape batch = node.integers(s ? "y_batch" : "x_batch"),
                contract = node.integers(s ? "y_contract" : "x_contract");
    for (const int64_t axis : batch) {
      sides[s].batch.push_back(strides[as_size(axis)]);
      if (s == 0) result.push_back(shape[as_size(axis)]);
    }
    for (const int64_t axis : contract) {
      sides[s].contract.push_back(strides[as_size(axis)]);
      if (s == 0) contracted.push_back(shape[as_size(axis)]);
    }
    const auto has = [](const Shape& axes, size_t axis) {
      return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    };
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (!has(batch, axis) && !has(contract, axis)) {
        sides[s].free.push_back(strides[axis]);
        result.push_back(shape[axis]);
      }
  }
  size_t place = 0;
  for_each_index(result, [&](const Shape& index) {
    int64_t start[2] = {0, 0};
    size_t axis = 0;
    for (size_t b = 0; b < sides[0].batch.size(); ++b, ++axis)
      for (size_t s = 0; s < 2; ++s) start[s] += index[axis] * sides[s].batch[b];
    for (size_t s = 0; s < 2; ++s)
      for (const int64_t stride : sides[s].free) start[s] += index[axis++] * stride;
    double sum = 0;
    uint64_t total = 0;
    for_each_index(contracted, [&](const Shape& k) {
      const size_t x = as_size(start[0] + offset_of(k, sides[0].contract));
      const size_t y = as_size(start[1] + offset_of(k, sides[1].contract));
      if (in[0]->floating()) sum += in[0]->real[x] * in[1]->real[y];
      else total += static_cast<uint64_t>(in[0]->integer[x]) * static_cast<uint64_t>(in[1]->integer[y]);
    });
    if (in[0]->floating()) out[0].set(place++, sum);
    else out[0].set(place++, static_cast<int64_t>(total));
  });
}

// The three operations visit the same (x, w, y) triples; they differ in which of them is summed into.
void convolution(const Node& node, const Inputs& in, Outputs& out) {
  const std::string& op = node.op();
  const bool to_x = op == "convolution_input_gradient", to_w = op == "convolution_weight_gradient";
  // convolution (x, w) -> y; input gradient (y, w) -> x; weight gradient (x, y) -> w
  const HostArray* x = to_x ? nullptr : in[0];
  const HostArray* w = to_w ? nullptr : in[1];
  const HostArray* y = to_x ? in[0] : to_w ? in[1] : nullptr;
  const Shape xs = to_x ? out[0].type.shape : x->type.shape, ws = to_w ? out[0].type.shape : w->type.shape;
  const Shape ys = y ? y->type.shape : out[0].type.shape;
  const Shape strides = node.integers("strides"), low = node.integers("low"), dilations = node.integers("dilations");
  const int64_t groups = node.integer("groups", 1);
  const Shape x_step = strides_of(xs), w_step = strides_of(ws), y_step = strides_of(ys);
  std::vector<double> sums(as_size(out[0].type.count()), 0.0);
  const int64_t outputs_per_group = ws[0] / groups;
  for_each_index(ys, [&](const Shape& at) {
    const int64_t group = at[1] / outputs_per_group;
    Shape window(ws.begin() + 1, ws.end());
    for_each_index(window, [&](const Shape& tap) {
      int64_t x_place = at[0] * x_step[0] + (group * ws[1] + tap[0]) * x_step[1];
      for (size_t s = 0; s < strides.size(); ++s) {
        const int64_t place = at[2 + s] * strides[s] - low[s] + tap[1 + s] * dilations[s];
        if (place < 0 || place >= xs[2 + s]) return;
        x_place += place * x_step[2 + s];
      }
      int64_t w_place = at[1] * w_step[0];
      for (size_t t = 0; t < tap.size(); ++t) w_place += tap[t] * w_step[1 + t];
      const int64_t y_place = offset_of(at, y_step);
      if (to_x) sums[as_size(x_place)] += y->real[as_size(y_place)] * w->real[as_size(w_place)];
      else if (to_w) sums[as_size(w_place)] += y->real[as_size(y_place)] * x->real[as_size(x_place)];
      else sums[as_size(y_place)] += x->real[as_size(x_place)] * w->real[as_size(w_place)];
    });
  });
  for (size_t i = 0; i < sums.size(); ++i) out[0].set(i, sums[i]);
}

}  // namespace

void add_host_products(HostTable& table) {
  table["dot_general"] = dot_general;
  table["convolution"] = table["convolution_input_gradient"] = table["convolution_weight_gradient"] = convolution;
}

}  // namespace transom::hpu
