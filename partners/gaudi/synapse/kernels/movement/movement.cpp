// SPDX-License-Identifier: Apache-2.0
// Nodes that move whole tensors: transpose, reshape and their kin, broadcast, concat, split.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/movement/movement.h"

namespace synapse_emulator {
namespace {

void check_same_elements(const Node& node) {
  require_counts(node, 1, 2, 1, 1);  // a second input is the shape tensor of dynamic graphs
  require(node.input(0).bytes() == node.output(0).bytes(), node, "input ", text_of(node.input(0).sizes), " and output ",
          text_of(node.output(0).sizes), " have different bytes");
}
void check_reshape(const Node& node) {
  check_same_elements(node);
  require_type(node, node.output(0), node.input(0).type, "the output");
}
void check_identity(const Node& node) {
  check_reshape(node);
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
}
void run_copy(const Node& node) {
  std::memmove(node.output(0).data, node.input(0).data, static_cast<size_t>(node.output(0).bytes()));
}

// ---- transpose
std::vector<int> permutation_of(const Node& node) {
  std::vector<int> result;
  if (node.params.size() == sizeof(TransposeNDimsParams)) {
    const auto params = params_of<TransposeNDimsParams>(node);
    require(params.tensorDim <= kMostDims, node, "tensorDim ", params.tensorDim);
    for (uint32_t i = 0; i < params.tensorDim; ++i) result.push_back(static_cast<int>(params.permutation[i]));
  } else {
    const auto params = params_of<TransposeParams>(node);
    require(params.tensorDim <= 5, node, "tensorDim ", params.tensorDim, " of at most 5");
    for (uint32_t i = 0; i < params.tensorDim; ++i) result.push_back(params.permutation[i]);
  }
  return result;
}
void check_transpose(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  require_type(node, node.output(0), node.input(0).type, "the output");
  const std::vector<int> order = permutation_of(node);
  const Operand& in = node.input(0);
  require(static_cast<int>(order.size()) == in.sizes.rank, node, "tensorDim is ", order.size(), ", the input has ",
          in.sizes.rank, " dims");
  Sizes expected;
  expected.rank = in.sizes.rank;
  std::vector<bool> seen(order.size(), false);
  for (size_t i = 0; i < order.size(); ++i) {
    require(order[i] >= 0 && order[i] < in.sizes.rank && !seen[static_cast<size_t>(order[i])], node,
            "not a permutation");
    seen[static_cast<size_t>(order[i])] = true;
    expected.size[i] = in.sizes[order[i]];
  }
  require_sizes(node, node.output(0), expected, "the output");
}

template <typename Word>
void gather_strided(const Operand& out, const Word* from, const std::array<int64_t, kMostDims>& stride, int64_t base) {
  Word* to = out.as<Word>();
  const int64_t width = out.sizes[0], step = stride[0];
  parallel_for(width == 0 ? 0 : out.elements() / width, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   int64_t place = base, rest = row;
                   for (int dim = 1; dim < out.sizes.rank; ++dim) {
                     place += rest % out.sizes[dim] * stride[static_cast<size_t>(dim)];
                     rest /= out.sizes[dim];
                   }
                   Word* line = to + row * width;
                   if (step == 1) std::copy(from + place, from + place + width, line);
                   else
                     for (int64_t i = 0; i < width; ++i) line[i] = from[place + i * step];
                 }
               });
}

}  // namespace

void copy_strided(const Operand& out, const Operand& in, const std::array<int64_t, kMostDims>& stride, int64_t base) {
  switch (size_of(in.type)) {
    case 1:
      return gather_strided(out, in.as<uint8_t>(), stride, base);
    case 2:
      return gather_strided(out, in.as<uint16_t>(), stride, base);
    case 4:
      return gather_strided(out, in.as<uint32_t>(), stride, base);
    default:
      return gather_strided(out, in.as<uint64_t>(), stride, base);
  }
}

std::array<int64_t, kMostDims> strides_of(const Sizes& sizes) {
  std::array<int64_t, kMostDims> stride{};
  int64_t step = 1;
  for (int dim = 0; dim < sizes.rank; ++dim) {
    stride[static_cast<size_t>(dim)] = step;
    step *= sizes[dim];
  }
  return stride;
}

int axis_of(const Node& node, int64_t axis, int rank) {
  require(axis >= 0 && axis < rank, node, "axis ", axis, " of ", rank, " dims");
  return static_cast<int>(axis);
}

namespace {

void run_transpose(const Node& node) {
  const std::vector<int> order = permutation_of(node);
  const auto from = strides_of(node.input(0).sizes);
  std::array<int64_t, kMostDims> stride{};
  for (size_t i = 0; i < order.size(); ++i) stride[i] = from[static_cast<size_t>(order[i])];
  copy_strided(node.output(0), node.input(0), stride, 0);
}

void check_broadcast(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.output(0), node.input(0).type, "the output");
  require_broadcast(node, node.input(0), node.output(0), "the input");
}
void run_broadcast(const Node& node) {
  auto stride = strides_of(node.input(0).sizes);
  for (int dim = 0; dim < node.output(0).sizes.rank; ++dim)
    if (node.input(0).sizes[dim] == 1) stride[static_cast<size_t>(dim)] = 0;
  copy_strided(node.output(0), node.input(0), stride, 0);
}

// ---- concat and split
int concat_axis(const Node& node, int rank) { return axis_of(node, params_of<AxisParams>(node).axis, rank); }
// `whole` consists of `parts` along the axis.
void check_parts(const Node& node, const Operand& whole, const std::vector<Operand>& parts) {
  const int axis = concat_axis(node, whole.sizes.rank);
  int64_t along = 0;
  for (const Operand& part : parts) {
    if (!part.present || part.kind == SHAPE_TENSOR) continue;
    require_type(node, part, whole.type, "a part");
    Sizes expected = whole.sizes;
    expected.size[static_cast<size_t>(axis)] = part.sizes[axis];
    require_sizes(node, part, expected, "a part");
    along += part.sizes[axis];
  }
  require(along == whole.sizes[axis], node, "the parts have ", along, " of ", whole.sizes[axis], " along axis ", axis);
}
void check_concat(const Node& node) {
  require_counts(node, 1, 64, 1, 1);
  check_parts(node, node.output(0), node.in);
}
void check_split(const Node& node) {
  require_counts(node, 1, 1, 1, 64);
  check_parts(node, node.input(0), node.out);
}
void copy_parts(const Node& node, const Operand& whole, const std::vector<Operand>& parts, bool join) {
  const int axis = concat_axis(node, whole.sizes.rank);
  int64_t inner = size_of(whole.type), outer = 1;
  for (int dim = 0; dim < axis; ++dim) inner *= whole.sizes[dim];
  for (int dim = axis + 1; dim < whole.sizes.rank; ++dim) outer *= whole.sizes[dim];
  int64_t place = 0;
  for (const Operand& part : parts) {
    if (!part.present || part.kind == SHAPE_TENSOR) continue;
    const int64_t bytes = inner * part.sizes[axis];
    for (int64_t i = 0; i < outer && bytes > 0; ++i) {
      char* in_whole = whole.data + i * inner * whole.sizes[axis] + place;
      char* in_part = part.data + i * bytes;
      std::memmove(join ? in_whole : in_part, join ? in_part : in_whole, static_cast<size_t>(bytes));
    }
    place += bytes;
  }
}
void run_concat(const Node& node) { copy_parts(node, node.output(0), node.in, true); }
void run_split(const Node& node) { copy_parts(node, node.input(0), node.out, false); }

// ---- memset: fills with zero
void check_memset(const Node& node) { require_counts(node, 0, 1, 1, 1); }
void run_memset(const Node& node) { std::memset(node.output(0).data, 0, static_cast<size_t>(node.output(0).bytes())); }

// ---- tile
void check_tile(const Node& node) {
  require_counts(node, 1, 2, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), node.type, "the output");
  for (int dim = 0; dim < node.output(0).sizes.rank; ++dim)
    require(node.input(0).sizes[dim] > 0 && node.output(0).sizes[dim] % node.input(0).sizes[dim] == 0, node,
            "the output is no multiple of the input in dim ", dim);
  require(node.params.size() == 16 || node.params.size() == 20, node, "params of ", node.params.size(), " bytes");
  for (int dim = 0; dim < std::min(5, node.output(0).sizes.rank); ++dim) {
    if (static_cast<size_t>(dim) >= node.params.size() / 4) break;
    int32_t repeat;
    std::memcpy(&repeat, node.params.data() + 4 * dim, sizeof repeat);
    require(node.output(0).sizes[dim] == node.input(0).sizes[dim] * repeat, node, "dim ", dim, " is repeated ", repeat,
            " times");
  }
}
void run_tile(const Node& node) {
  const auto stride = strides_of(node.input(0).sizes);
  const int64_t size = size_of(node.type), count = node.output(0).elements();
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element, place = 0;
    for (int dim = 0; dim < node.output(0).sizes.rank; ++dim) {
      place += rest % node.output(0).sizes[dim] % node.input(0).sizes[dim] * stride[static_cast<size_t>(dim)];
      rest /= node.output(0).sizes[dim];
    }
    std::memcpy(node.output(0).data + element * size, node.input(0).data + place * size, static_cast<size_t>(size));
  }
}

}  // namespace

void add_movement(KernelTable& table) {
  const auto add = [&](const char* name, void (*check)(const Node&), void (*run)(const Node&), size_t reads = 1) {
    table.add({name, Engine::kDma, kNoSuffix, check, run, nullptr, false, reads});
  };
  add("reshape", check_reshape, run_copy);
  add("identity", check_identity, run_copy);
  add("memcpy", check_identity, run_copy);
  add("reinterpret_cast", check_same_elements, run_copy);
  add("expand_dims", check_reshape, run_copy);
  add("squeeze", check_reshape, run_copy);
  add("flatten", check_reshape, run_copy);
  add("transpose", check_transpose, run_transpose);
  add("broadcast", check_broadcast, run_broadcast);
  add("concat", check_concat, run_concat, 0);  // parts without data are skipped
  add("split", check_split, run_split);
  add("memset", check_memset, run_memset, 0);
  table.add({"tile_fwd", Engine::kTpc, kNumbers, check_tile, run_tile, nullptr, false, 1});
}

}  // namespace synapse_emulator
