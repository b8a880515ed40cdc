// SPDX-License-Identifier: Apache-2.0
// Operations that move elements and compute nothing: each is one strided copy, or one for each piece.
#include <cstring>
#include <memory>

#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/movement/copy.h"

namespace transom::cpu {
namespace {

void require_rank(const Shape& list, size_t rank, const char* name) {
  if (list.size() != rank)
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} numbers in '{}', found {}", rank, name, list.size());
}

size_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = node.integer("axis");
  if (axis < 0 || static_cast<size_t>(axis) >= rank)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an axis below {}, found {}", rank, axis);
  return static_cast<size_t>(axis);
}

// The output is a view of the input.
Kernel copy_of_view(const Node& node, const View& view) {
  if (view.shape != node.output().shape)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an output of another shape than {}", to_string(node.output()));
  const StridedCopy copy(view.shape, dense_strides(view.shape), 0, view.strides, view.offset,
                         element_size(node.input(0).dtype));
  return {copy.name(), [copy](const Arguments& arguments) { copy.run(arguments.outputs[0], arguments.inputs[0]); }};
}

Kernel make_reshape(const Node& node) {
  if (node.input(0).count() != node.output().count())
    fail(TRANSOM_INVALID_ARGUMENT, "expected as many elements as {} has, found {}", to_string(node.input(0)),
         to_string(node.output()));
  const auto bytes = static_cast<int64_t>(node.input(0).bytes());
  return {"copy", [bytes](const Arguments& arguments) {
            std::byte* to = arguments.outputs[0];
            const std::byte* from = arguments.inputs[0];
            if (to == from) return;  // the memory plan made them one
            parallel_ranges(bytes, 1 << 18, [=](int64_t begin, int64_t end) {
              std::memmove(to + begin, from + begin, static_cast<size_t>(end - begin));
            });
          }};
}

Kernel make_permute(const Node& node) {
  const Shape permutation = node.integers("permutation");
  const View dense = dense_view(node.input(0).shape);
  require_rank(permutation, dense.shape.size(), "permutation");
  View view;
  for (int64_t axis : permutation) {
    if (axis < 0 || static_cast<size_t>(axis) >= dense.shape.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected axes below {}, found {}", dense.shape.size(), axis);
    view.shape.push_back(dense.shape[static_cast<size_t>(axis)]);
    view.strides.push_back(dense.strides[static_cast<size_t>(axis)]);
  }
  return copy_of_view(node, view);
}

Kernel make_broadcast(const Node& node) {
  return copy_of_view(node, broadcast_view(dense_view(node.input(0).shape), node.output().shape));
}

Kernel make_slice(const Node& node) {
  const Shape starts = node.integers("starts"), limits = node.integers("limits"), steps = node.integers("strides");
  View view = dense_view(node.input(0).shape);
  for (const auto& [list, name] : {std::pair{&starts, "starts"}, {&limits, "limits"}, {&steps, "strides"}})
    require_rank(*list, view.shape.size(), name);
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (starts[axis] < 0 || limits[axis] < starts[axis] || limits[axis] > view.shape[axis] || steps[axis] < 1)
      fail(TRANSOM_INVALID_ARGUMENT, "expected a slice inside extent {} of axis {}, found [{}, {}) by {}",
           view.shape[axis], axis, starts[axis], limits[axis], steps[axis]);
    view.offset += starts[axis] * view.strides[axis];
    view.shape[axis] = (limits[axis] - starts[axis] + steps[axis] - 1) / steps[axis];
    view.strides[axis] *= steps[axis];
  }
  return copy_of_view(node, view);
}

Kernel make_reverse(const Node& node) {
  View view = dense_view(node.input(0).shape);
  for (int64_t axis : node.integers("axes")) {
    if (axis < 0 || static_cast<size_t>(axis) >= view.shape.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected axes below {}, found {}", view.shape.size(), axis);
    const auto i = static_cast<size_t>(axis);
    view.offset += (view.shape[i] - 1) * view.strides[i];
    view.strides[i] = -view.strides[i];
  }
  return copy_of_view(node, view);
}

Kernel make_pad(const Node& node) {
  const Type& input = node.input(0);
  const Type& output = node.output();
  const Shape low = node.integers("low"), high = node.integers("high");
  require_rank(low, input.rank(), "low");
  require_rank(high, input.rank(), "high");
  const Shape strides = dense_strides(output.shape);
  int64_t offset = 0;
  for (size_t axis = 0; axis < input.rank(); ++axis) {
    if (low[axis] < 0 || high[axis] < 0 || low[axis] + input.shape[axis] + high[axis] != output.shape[axis])
      fail(TRANSOM_INVALID_ARGUMENT, "expected {} to grow by {} and {} in axis {}, found {}", to_string(input),
           low[axis], high[axis], axis, to_string(output));
    offset += low[axis] * strides[axis];
  }
  const StridedCopy copy(input.shape, strides, offset, dense_strides(input.shape), 0, element_size(input.dtype));
  const int64_t count = output.count();
  const double value = node.number("value");
  const transom_dtype dtype = input.dtype;
  return {"fill and copy", [=](const Arguments& arguments) {
            dispatch(dtype, [&]<typename T>() {
              T* out = arguments.output<T>();
              const T filler = static_cast<T>(static_cast<Compute<T>>(value));
              parallel_ranges(count, 1 << 16,
                              [=](int64_t begin, int64_t end) { std::fill(out + begin, out + end, filler); });
            });
            copy.run(arguments.outputs[0], arguments.inputs[0]);
          }};
}

Kernel make_concatenate(const Node& node) {
  const Type& output = node.output();
  const size_t axis = axis_of(node, output.rank());
  const Shape strides = dense_strides(output.shape);
  std::vector<StridedCopy> copies;
  int64_t at = 0;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Type& input = node.input(i);
    Shape expected = output.shape;
    if (input.rank() == expected.size()) expected[axis] = input.shape[axis];
    if (input.shape != expected)
      fail(TRANSOM_INVALID_ARGUMENT, "expected input {} to fit {}, found {}", i, to_string(output), to_string(input));
    copies.emplace_back(input.shape, strides, at * strides[axis], dense_strides(input.shape), 0,
                        element_size(input.dtype));
    at += input.shape[axis];
  }
  if (at != output.shape[axis])
    fail(TRANSOM_INVALID_ARGUMENT, "expected inputs that fill axis {} of {}, found {}", axis, to_string(output), at);
  return {"strided copies", [copies = std::move(copies)](const Arguments& arguments) {
            for (size_t i = 0; i < copies.size(); ++i) copies[i].run(arguments.outputs[0], arguments.inputs[i]);
          }};
}

}  // namespace

void add_movement_kernels(KernelTable& table) {
  table["reshape"] = make_reshape;
  table["permute"] = make_permute;
  table["broadcast"] = make_broadcast;
  table["slice"] = make_slice;
  table["reverse"] = make_reverse;
  table["pad"] = make_pad;
  table["concatenate"] = make_concatenate;
}

}  // namespace transom::cpu
