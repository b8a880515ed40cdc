// SPDX-License-Identifier: Apache-2.0
// Nodes that take or replace parts of tensors: slice, slice_insert, slice_axis, strided_view, strided_insert, pad.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/movement/movement.h"

namespace synapse_emulator {
namespace {

struct Window {
  std::array<int64_t, kMostDims> start{}, step{};
  Sizes sizes;
};

// The part of `whole` that the params name. Dims that `axes` does not list stay whole.
Window window_of(const Node& node, const Sizes& whole) {
  const auto params = params_of<SliceParams>(node);
  Window window;
  window.sizes = whole;
  window.step.fill(1);
  std::array<bool, kMostDims> seen{};
  for (int i = 0; i < whole.rank; ++i) {
    const uint32_t axis = params.axes[i];
    if (params.steps[i] == 0 && params.ends[i] == 0 && params.starts[i] == 0) continue;  // an unused entry
    require(axis < static_cast<uint32_t>(whole.rank), node, "axis ", axis, " of ", whole.rank, " dims");
    require(!seen[axis], node, "axis ", axis, " is given twice");
    seen[axis] = true;
    const auto start = static_cast<int64_t>(params.starts[i]), end = static_cast<int64_t>(params.ends[i]);
    const auto step = static_cast<int64_t>(params.steps[i]);
    require(step > 0, node, "axis ", axis, ": step ", step);
    require(start >= 0 && start < end && end <= whole[static_cast<int>(axis)], node, "axis ", axis, ": [", start, ", ",
            end, ") of ", whole[static_cast<int>(axis)]);
    window.start[axis] = start;
    window.step[axis] = step;
    window.sizes.size[axis] = (end - start - 1) / step + 1;
  }
  return window;
}

void check_slice(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.output(0), node.input(0).type, "the output");
  require_sizes(node, node.output(0), window_of(node, node.input(0).sizes).sizes, "the output");
}
void run_slice(const Node& node) {
  const Window window = window_of(node, node.input(0).sizes);
  auto stride = strides_of(node.input(0).sizes);
  int64_t base = 0;
  for (int dim = 0; dim < window.sizes.rank; ++dim) {
    base += window.start[static_cast<size_t>(dim)] * stride[static_cast<size_t>(dim)];
    stride[static_cast<size_t>(dim)] *= window.step[static_cast<size_t>(dim)];
  }
  copy_strided(node.output(0), node.input(0), stride, base);
}

// Writes each element of `part` to `whole`; place = base + sum of index * stride.
void scatter_strided(const Operand& whole, const Operand& part, const std::array<int64_t, kMostDims>& stride,
                     int64_t base) {
  const int64_t size = size_of(whole.type), count = part.elements();
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element, place = base;
    for (int dim = 0; dim < part.sizes.rank; ++dim) {
      place += rest % part.sizes[dim] * stride[static_cast<size_t>(dim)];
      rest /= part.sizes[dim];
    }
    std::memcpy(whole.data + place * size, part.data + element * size, static_cast<size_t>(size));
  }
}

void check_slice_insert(const Node& node) {
  require_counts(node, 2, 3, 1, 1);
  require_type(node, node.input(1), node.input(0).type, "the piece");
  require_type(node, node.output(0), node.input(0).type, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  require_sizes(node, node.input(1), window_of(node, node.input(0).sizes).sizes, "the piece");
}
void run_slice_insert(const Node& node) {
  std::memmove(node.output(0).data, node.input(0).data, static_cast<size_t>(node.output(0).bytes()));
  const Window window = window_of(node, node.output(0).sizes);
  auto stride = strides_of(node.output(0).sizes);
  int64_t base = 0;
  for (int dim = 0; dim < window.sizes.rank; ++dim) {
    base += window.start[static_cast<size_t>(dim)] * stride[static_cast<size_t>(dim)];
    stride[static_cast<size_t>(dim)] *= window.step[static_cast<size_t>(dim)];
  }
  scatter_strided(node.output(0), node.input(1), stride, base);
}

struct SliceAxisParams {
  uint32_t axis, pad;
  uint64_t begin, end;
};
void check_slice_axis(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.output(0), node.input(0).type, "the output");
  const auto params = params_of<SliceAxisParams>(node);
  const int axis = axis_of(node, params.axis, node.input(0).sizes.rank);
  require(params.begin < params.end && params.end <= static_cast<uint64_t>(node.input(0).sizes[axis]), node, "[",
          params.begin, ", ", params.end, ") of ", node.input(0).sizes[axis]);
  Sizes expected = node.input(0).sizes;
  expected.size[static_cast<size_t>(axis)] = static_cast<int64_t>(params.end - params.begin);
  require_sizes(node, node.output(0), expected, "the output");
}
void run_slice_axis(const Node& node) {
  const auto params = params_of<SliceAxisParams>(node);
  const auto stride = strides_of(node.input(0).sizes);
  copy_strided(node.output(0), node.input(0), stride, static_cast<int64_t>(params.begin) * stride[params.axis]);
}

// ---- views of one-dimensional memory
std::array<int64_t, kMostDims> checked_view(const Node& node, const Operand& whole, const Operand& view) {
  const auto params = params_of<StridedParams>(node);
  std::array<int64_t, kMostDims> stride{};
  uint64_t last = params.baseOffset;
  for (int dim = 0; dim < view.sizes.rank; ++dim) {
    const auto steps = static_cast<uint64_t>(std::max<int64_t>(view.sizes[dim], 1) - 1);
    uint64_t reach = 0;
    const bool overflows =
        __builtin_mul_overflow(params.strides[dim], steps, &reach) || __builtin_add_overflow(last, reach, &last);
    require(!overflows && params.strides[dim] <= uint64_t{1} << 40, node, "stride ", params.strides[dim]);
    stride[static_cast<size_t>(dim)] = static_cast<int64_t>(params.strides[dim]);
  }
  require(last < static_cast<uint64_t>(whole.elements()), node, "the view reaches element ", last, " of ",
          whole.elements());
  return stride;
}
void check_strided_view(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.output(0), node.input(0).type, "the output");
  checked_view(node, node.input(0), node.output(0));
}
void run_strided_view(const Node& node) {
  copy_strided(node.output(0), node.input(0), checked_view(node, node.input(0), node.output(0)),
               static_cast<int64_t>(params_of<StridedParams>(node).baseOffset));
}
void check_strided_insert(const Node& node) {
  require_counts(node, 2, 3, 1, 1);
  require_type(node, node.input(1), node.input(0).type, "the view");
  require_type(node, node.output(0), node.input(0).type, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  checked_view(node, node.input(0), node.input(1));
}
void run_strided_insert(const Node& node) {
  std::memmove(node.output(0).data, node.input(0).data, static_cast<size_t>(node.output(0).bytes()));
  scatter_strided(node.output(0), node.input(1), checked_view(node, node.output(0), node.input(1)),
                  static_cast<int64_t>(params_of<StridedParams>(node).baseOffset));
}

// ---- pad with a constant
void check_pad(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), node.type, "the output");
  const auto params = params_of<PadParams>(node, {44, 48});
  require(params.mode == 0, node, "only padding with a constant is emulated");
  const int rank = node.input(0).sizes.rank;
  Sizes expected = node.input(0).sizes;
  for (int dim = 0; dim < rank; ++dim)
    expected.size[static_cast<size_t>(dim)] += int64_t{params.pads[dim]} + params.pads[rank + dim];
  require_sizes(node, node.output(0), expected, "the output");
}
void run_pad(const Node& node) {
  const auto params = params_of<PadParams>(node, {44, 48});
  const Operand& out = node.output(0);
  if (is_floating(node.type)) {
    const std::vector<float> fill(static_cast<size_t>(out.elements()), params.value.f);
    store<float>(out.type, out.data, 0, 1, out.elements(), fill.data());
  } else {
    const std::vector<int64_t> fill(static_cast<size_t>(out.elements()), params.value.i);
    store<int64_t>(out.type, out.data, 0, 1, out.elements(), fill.data());
  }
  const auto stride = strides_of(out.sizes);
  int64_t base = 0;
  for (int dim = 0; dim < out.sizes.rank; ++dim) base += int64_t{params.pads[dim]} * stride[static_cast<size_t>(dim)];
  scatter_strided(out, node.input(0), stride, base);
}

}  // namespace

void add_slices(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&), size_t reads) {
    table.add({name, Engine::kDma, kNoSuffix, check, run, nullptr, false, reads});
  };
  add("slice", check_slice, run_slice, 1);
  add("slice_insert", check_slice_insert, run_slice_insert, 2);
  add("slice_axis", check_slice_axis, run_slice_axis, 1);
  add("strided_view", check_strided_view, run_strided_view, 1);
  add("strided_insert", check_strided_insert, run_strided_insert, 2);
  table.add({"pad_fwd", Engine::kTpc, kNumbers, check_pad, run_pad, nullptr, false, 1});
}

}  // namespace synapse_emulator
