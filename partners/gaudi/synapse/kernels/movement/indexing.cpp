// SPDX-License-Identifier: Apache-2.0
// Gather, scatter and embeddings. An index out of range is an error of the launch: the card would read elsewhere.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace synapse_emulator {
namespace {

void require_indices(const Node& node, const Operand& indices) {
  require_type(node, indices, syn_type_int32, "the indices");
}

int64_t checked(const Node& node, int32_t index, int64_t size) {
  if (index < 0 || index >= size)
    throw Violation{synFail, "index-range", join(node.guid, ": index ", index, " of ", size)};
  return index;
}

int axis_param(const Node& node) {
  return axis_of(node, params_of<GatherParams>(node, {4, 8, 12, 16}).axis, node.input(0).sizes.rank);
}

// y = x with the dim `axis` replaced by the dims of the indices.
Sizes gathered(const Sizes& x, const Sizes& indices, int axis) {
  Sizes result;
  const auto push = [&](int64_t size) {
    if (result.rank < kMostDims) result.size[static_cast<size_t>(result.rank++)] = size;
  };
  for (int dim = 0; dim < axis; ++dim) push(x[dim]);
  for (int dim = 0; dim < indices.rank; ++dim) push(indices[dim]);
  for (int dim = axis + 1; dim < x.rank; ++dim) push(x[dim]);
  return result;
}

void check_gather(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  require_type(node, node.input(0), node.type, "x");
  require_type(node, node.output(0), node.type, "the output");
  require_indices(node, node.input(1));
  require_sizes(node, node.output(0), gathered(node.input(0).sizes, node.input(1).sizes, axis_param(node)),
                "the output");
}
void gather_along(const Node& node, int axis) {
  const Operand &x = node.input(0), &indices = node.input(1);
  int64_t inner = size_of(x.type), outer = 1;
  for (int dim = 0; dim < axis; ++dim) inner *= x.sizes[dim];
  for (int dim = axis + 1; dim < x.sizes.rank; ++dim) outer *= x.sizes[dim];
  const int64_t count = indices.elements(), size = x.sizes[axis];
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < count; ++j)
      std::memcpy(node.output(0).data + (i * count + j) * inner,
                  x.data + (i * size + checked(node, indices.as<int32_t>()[j], size)) * inner,
                  static_cast<size_t>(inner));
}
void run_gather(const Node& node) { gather_along(node, axis_param(node)); }

// The rows of a table [D, V] at indices of any sizes -> [D, ...]
void check_embedding(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  require_type(node, node.input(0), node.type, "the table");
  require_type(node, node.output(0), node.type, "the output");
  require_indices(node, node.input(1));
  require(node.input(0).sizes.rank == 2, node, "the table has ", node.input(0).sizes.rank, " dims");
  require_sizes(node, node.output(0), gathered(node.input(0).sizes, node.input(1).sizes, 1), "the output");
}
void run_embedding(const Node& node) { gather_along(node, 1); }

// {dy, indices, shape tensor or nothing} -> dtable; sums in f32 in the order of the indices
void check_embedding_gradient(const Node& node) {
  require_counts(node, 2, 3, 1, 1);
  require_type(node, node.input(0), node.type, "dy");
  require_type(node, node.output(0), node.type, "dtable");
  require_indices(node, node.input(1));
  require(node.output(0).sizes.rank == 2, node, "the table has ", node.output(0).sizes.rank, " dims");
  require_sizes(node, node.input(0), gathered(node.output(0).sizes, node.input(1).sizes, 1), "dy");
  const auto params = params_of<EmbeddingBackwardParams>(node);
  require(params.num_weights == node.output(0).sizes[1], node, "num_weights is ", params.num_weights,
          ", the table has ", node.output(0).sizes[1], " rows");
  require(!params.scaleGradByFreq, node, "scaleGradByFreq is not emulated");
}
void run_embedding_gradient(const Node& node) {
  const auto params = params_of<EmbeddingBackwardParams>(node);
  const Operand& out = node.output(0);
  const int64_t width = out.sizes[0], rows = out.sizes[1];
  std::vector<float> sums(static_cast<size_t>(width * rows), 0), row(static_cast<size_t>(width));
  for (int64_t i = 0; i < node.input(1).elements(); ++i) {
    const int64_t index = checked(node, node.input(1).as<int32_t>()[i], rows);
    if (index == params.padding_idx) continue;
    load<float>(node.input(0).type, node.input(0).data, i * width, 1, width, row.data());
    for (int64_t j = 0; j < width; ++j) sums[static_cast<size_t>(index * width + j)] += row[static_cast<size_t>(j)];
  }
  store<float>(out.type, out.data, 0, 1, width * rows, sums.data());
}

// y[.., i, ..] = x[.., index[.., i, ..], ..], as torch.gather
void check_gather_elements(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  require_type(node, node.input(0), node.type, "x");
  require_type(node, node.output(0), node.type, "the output");
  require_indices(node, node.input(1));
  require_sizes(node, node.output(0), node.input(1).sizes, "the output");
  require(node.input(0).sizes.rank == node.input(1).sizes.rank, node, "x and the indices have different ranks");
  const int axis = axis_param(node);
  for (int dim = 0; dim < node.input(0).sizes.rank; ++dim)
    require(dim == axis || node.input(1).sizes[dim] <= node.input(0).sizes[dim], node,
            "the indices are larger than x in dim ", dim);
}
// Calls f(element, place): element of `indices` and where it points in a tensor of `sizes`.
template <typename F>
void for_places(const Node& node, const Operand& indices, const Sizes& sizes, int axis, const F& f) {
  const auto stride = strides_of(sizes);
  for (int64_t element = 0; element < indices.elements(); ++element) {
    int64_t rest = element, place = 0;
    for (int dim = 0; dim < sizes.rank; ++dim) {
      const int64_t index =
          dim == axis ? checked(node, indices.as<int32_t>()[element], sizes[dim]) : rest % indices.sizes[dim];
      rest /= indices.sizes[dim];
      place += index * stride[static_cast<size_t>(dim)];
    }
    f(element, place);
  }
}
void run_gather_elements(const Node& node) {
  const auto size = static_cast<size_t>(size_of(node.type));
  for_places(node, node.input(1), node.input(0).sizes, axis_param(node), [&](int64_t element, int64_t place) {
    std::memcpy(node.output(0).data + static_cast<size_t>(element) * size,
                node.input(0).data + static_cast<size_t>(place) * size, size);
  });
}

// {x, indices, updates} -> x with the updates written or added, as torch.scatter and scatter_add
void check_scatter(const Node& node) {
  require_counts(node, 3, 3, 1, 1);
  for (const Operand* operand : {&node.input(0), &node.input(2), &node.output(0)})
    require_type(node, *operand, node.type, "x, updates or output");
  require_indices(node, node.input(1));
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  require_sizes(node, node.input(2), node.input(1).sizes, "the updates");
  require(node.input(0).sizes.rank == node.input(1).sizes.rank, node, "x and the indices have different ranks");
  const int axis = axis_param(node);
  for (int dim = 0; dim < node.input(0).sizes.rank; ++dim)
    require(dim == axis || node.input(1).sizes[dim] <= node.input(0).sizes[dim], node,
            "the indices are larger than x in dim ", dim);
}
void run_scatter(const Node& node) {
  const auto size = static_cast<size_t>(size_of(node.type));
  std::memmove(node.output(0).data, node.input(0).data, static_cast<size_t>(node.output(0).bytes()));
  for_places(node, node.input(1), node.output(0).sizes, axis_param(node), [&](int64_t element, int64_t place) {
    std::memcpy(node.output(0).data + static_cast<size_t>(place) * size,
                node.input(2).data + static_cast<size_t>(element) * size, size);
  });
}
template <typename Value>
void scatter_add(const Node& node) {
  const Operand& out = node.output(0);
  std::vector<Value> sums(static_cast<size_t>(out.elements())), updates(static_cast<size_t>(node.input(2).elements()));
  load<Value>(node.type, node.input(0).data, 0, 1, out.elements(), sums.data());
  load<Value>(node.type, node.input(2).data, 0, 1, node.input(2).elements(), updates.data());
  for_places(node, node.input(1), out.sizes, axis_param(node), [&](int64_t element, int64_t place) {
    sums[static_cast<size_t>(place)] += updates[static_cast<size_t>(element)];
  });
  store<Value>(node.type, out.data, 0, 1, out.elements(), sums.data());
}
void run_scatter_add(const Node& node) {
  if (is_floating(node.type)) scatter_add<float>(node);
  else scatter_add<int64_t>(node);
}

// {x, indices [n], updates with n along the axis} -> x with whole slices replaced. The axis counts as in Python here.
int copy_axis(const Node& node) {
  const int rank = node.input(0).sizes.rank;
  return rank - 1 - axis_of(node, params_of<GatherParams>(node).axis, rank);
}
void check_index_copy(const Node& node) {
  require_counts(node, 3, 3, 1, 1);
  for (const Operand* operand : {&node.input(0), &node.input(2), &node.output(0)})
    require_type(node, *operand, node.type, "x, updates or output");
  require_indices(node, node.input(1));
  require(node.input(1).sizes.rank == 1, node, "the indices have one dim");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  Sizes expected = node.input(0).sizes;
  expected.size[static_cast<size_t>(copy_axis(node))] = node.input(1).sizes[0];
  require_sizes(node, node.input(2), expected, "the updates");
}
void run_index_copy(const Node& node) {
  const int axis = copy_axis(node);
  const Operand& out = node.output(0);
  std::memmove(out.data, node.input(0).data, static_cast<size_t>(out.bytes()));
  int64_t inner = size_of(out.type), outer = 1;
  for (int dim = 0; dim < axis; ++dim) inner *= out.sizes[dim];
  for (int dim = axis + 1; dim < out.sizes.rank; ++dim) outer *= out.sizes[dim];
  const int64_t count = node.input(1).elements(), size = out.sizes[axis];
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < count; ++j)
      std::memcpy(out.data + (i * size + checked(node, node.input(1).as<int32_t>()[j], size)) * inner,
                  node.input(2).data + (i * count + j) * inner, static_cast<size_t>(inner));
}

}  // namespace

void add_indexing(KernelTable& table) {
  const auto add = [&](const char* name, const Types& types, void (*check)(const Node&), void (*run)(const Node&)) {
    table.add({name, Engine::kTpc, types, check, run, nullptr, false});
  };
  add("gather_fwd", kNumbers, check_gather, run_gather);
  add("gather_elements_fwd", kNumbers, check_gather_elements, run_gather_elements);
  add("scatter_fwd", kNumbers, check_scatter, run_scatter);
  add("scatter_add_fwd", {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_int32}, check_scatter,
      run_scatter_add);
  add("unsorted_scatter_add_fwd", {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_int32}, check_scatter,
      run_scatter_add);
  add("index_copy_fwd", kNumbers, check_index_copy, run_index_copy);
  add("embedding_pt_fwd", kFloats, check_embedding, run_embedding);
  add("embedding_dense_pt_bwd", kFloats, check_embedding_gradient, run_embedding_gradient);
}

}  // namespace synapse_emulator
