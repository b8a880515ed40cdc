// SPDX-License-Identifier: Apache-2.0
// Operations that move elements, and those that read and write at places known only at run time.
#include <algorithm>

#include "hpu/host/host_array.h"

namespace transom::hpu {
namespace {

using Inputs = std::vector<const HostArray*>;
using Outputs = std::vector<HostArray>;

size_t as_size(int64_t value) { return static_cast<size_t>(value); }

void reshape(const Node&, const Inputs& in, Outputs& out) {
  out[0].real = in[0]->real;
  out[0].integer = in[0]->integer;
}

// Output element [index] is input element sum(index * steps) + start.
void gather_by_steps(const HostArray& in, HostArray& out, const Shape& steps, int64_t start = 0) {
  size_t i = 0;
  for_each_index(out.type.shape,
                 [&](const Shape& index) { out.take(i++, in, as_size(start + offset_of(index, steps))); });
}

void permute(const Node& node, const Inputs& in, Outputs& out) {
  const Shape strides = strides_of(in[0]->type.shape);
  Shape steps;
  for (const int64_t axis : node.integers("permutation")) steps.push_back(strides[as_size(axis)]);
  gather_by_steps(*in[0], out[0], steps);
}

void broadcast(const Node&, const Inputs& in, Outputs& out) {
  Shape steps = strides_of(in[0]->type.shape);
  for (size_t i = 0; i < steps.size(); ++i)
    if (in[0]->type.shape[i] != out[0].type.shape[i]) steps[i] = 0;
  gather_by_steps(*in[0], out[0], steps);
}

void slice(const Node& node, const Inputs& in, Outputs& out) {
  Shape steps = strides_of(in[0]->type.shape);
  const int64_t start = offset_of(node.integers("starts"), steps);
  const Shape strides = node.integers("strides");
  for (size_t i = 0; i < steps.size(); ++i) steps[i] *= strides[i];
  gather_by_steps(*in[0], out[0], steps, start);
}

void reverse(const Node& node, const Inputs& in, Outputs& out) {
  Shape steps = strides_of(in[0]->type.shape);
  int64_t start = 0;
  for (const int64_t axis : node.integers("axes")) {
    start += steps[as_size(axis)] * (in[0]->type.shape[as_size(axis)] - 1);
    steps[as_size(axis)] *= -1;
  }
  gather_by_steps(*in[0], out[0], steps, start);
}

void pad(const Node& node, const Inputs& in, Outputs& out) {
  const auto count = as_size(out[0].type.count());
  for (size_t i = 0; i < count; ++i) out[0].set(i, node.number("value"));
  const Shape low = node.integers("low"), strides = strides_of(out[0].type.shape);
  const int64_t start = offset_of(low, strides);
  size_t i = 0;
  for_each_index(in[0]->type.shape, [&](const Shape& index) {
    bool inside = true;  // a negative pad cuts
    for (size_t a = 0; a < index.size(); ++a)
      inside = inside && index[a] + low[a] >= 0 && index[a] + low[a] < out[0].type.shape[a];
    if (inside) out[0].take(as_size(start + offset_of(index, strides)), *in[0], i);
    ++i;
  });
}

void concatenate(const Node& node, const Inputs& in, Outputs& out) {
  const int64_t axis = node.integer("axis");
  const Around whole(out[0].type.shape, axis);
  int64_t first = 0;
  for (const HostArray* part : in) {
    const Around view(part->type.shape, axis);
    const int64_t run = view.length * view.after;
    for (int64_t b = 0; b < view.before; ++b)
      for (int64_t i = 0; i < run; ++i)
        out[0].take(as_size((b * whole.length + first) * whole.after + i), *part, as_size(b * run + i));
    first += view.length;
  }
}

void iota(const Node& node, const Inputs&, Outputs& out) {
  const Around view(out[0].type.shape, node.integer("axis"));
  for (int64_t i = 0; i < out[0].type.count(); ++i) out[0].set(as_size(i), i / view.after % view.length);
}

void constant(const Node& node, const Inputs&, Outputs& out) {
  if (node.has("int_value")) out[0].set(0, node.integer("int_value"));
  else out[0].set(0, node.number("value"));
}

// ---- places known at run time

// visit(place in x, place in the gathered tensor)
template <typename Visit>
void for_each_gathered(const Type& x, const HostArray& indices, int64_t axis, Visit&& visit) {
  const Around view(x.shape, axis);
  const int64_t count = indices.type.count();
  for (int64_t b = 0; b < view.before; ++b)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = indices.integer[as_size(i)];
      if (index < 0 || index >= view.length)
        fail(TRANSOM_INVALID_ARGUMENT, "index {} at place {} is outside [0, {})", index, i, view.length);
      for (int64_t a = 0; a < view.after; ++a)
        visit(as_size((b * view.length + index) * view.after + a), as_size((b * count + i) * view.after + a));
    }
}

void gather(const Node& node, const Inputs& in, Outputs& out) {
  for_each_gathered(in[0]->type, *in[1], node.integer("axis"),
                    [&](size_t from, size_t to) { out[0].take(to, *in[0], from); });
}

void scatter_add(const Node& node, const Inputs& in, Outputs& out) {
  std::vector<double> sums = in[0]->real;
  out[0].integer = in[0]->integer;
  for_each_gathered(in[0]->type, *in[1], node.integer("axis"), [&](size_t to, size_t from) {
    if (out[0].floating()) sums[to] += in[2]->real[from];
    else
      out[0].set(to, static_cast<int64_t>(static_cast<uint64_t>(out[0].integer[to]) +
                                          static_cast<uint64_t>(in[2]->integer[from])));
  });
  for (size_t i = 0; i < sums.size(); ++i) out[0].set(i, sums[i]);
}

int64_t window_start(const HostArray& starts, const Shape& shape, const Shape& sizes) {
  const Shape strides = strides_of(shape);
  int64_t start = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    start += strides[i] * std::clamp<int64_t>(starts.integer[i], 0, shape[i] - sizes[i]);
  return start;
}

void dynamic_slice(const Node&, const Inputs& in, Outputs& out) {
  const Shape& shape = in[0]->type.shape;
  gather_by_steps(*in[0], out[0], strides_of(shape), window_start(*in[1], shape, out[0].type.shape));
}

void dynamic_update_slice(const Node& node, const Inputs& in, Outputs& out) {
  reshape(node, in, out);
  const Shape& shape = in[0]->type.shape;
  const Shape strides = strides_of(shape);
  const int64_t start = window_start(*in[2], shape, in[1]->type.shape);
  size_t i = 0;
  for_each_index(in[1]->type.shape,
                 [&](const Shape& index) { out[0].take(as_size(start + offset_of(index, strides)), *in[1], i++); });
}

}  // namespace

void add_host_movement(HostTable& table) {
  table["reshape"] = reshape;
  table["permute"] = permute;
  table["broadcast"] = broadcast;
  table["slice"] = slice;
  table["reverse"] = reverse;
  table["pad"] = pad;
  table["concatenate"] = concatenate;
  table["iota"] = iota;
  table["constant"] = constant;
}

void add_host_indexing(HostTable& table) {
  table["gather"] = gather;
  table["scatter_add"] = scatter_add;
  table["dynamic_slice"] = dynamic_slice;
  table["dynamic_update_slice"] = dynamic_update_slice;
}

}  // namespace transom::hpu
