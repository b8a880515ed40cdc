// SPDX-License-Identifier: Apache-2.0
// Operations whose places are data: gather, scatter_add, scatter, dynamic slices. Indices
// are checked before anything is moved.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/movement/copy.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

// x as [outer, extent, inner], indices as one list.
struct Layout {
  int64_t outer, extent, inner, indices;
  transom_dtype index_dtype;
};

Layout layout_of(const Node& node, const Type& gathered) {
  const Type& x = node.input(0);
  const Type& indices = node.input(1);
  const int64_t axis = node.integer("axis");
  if (axis < 0 || static_cast<size_t>(axis) >= x.rank())
    fail(TRANSOM_INVALID_ARGUMENT, "expected an axis below {}, found {}", x.rank(), axis);
  if (indices.dtype != TRANSOM_INT32 && indices.dtype != TRANSOM_INT64)
    fail(TRANSOM_INVALID_ARGUMENT, "expected indices of i32 or i64, found {}", to_string(indices));
  const auto at = static_cast<size_t>(axis);
  const Layout layout{product(x.shape, 0, at), x.shape[at], product(x.shape, at + 1, x.rank()), indices.count(),
                      indices.dtype};
  if (gathered.count() != layout.outer * layout.indices * layout.inner)
    fail(TRANSOM_INVALID_ARGUMENT, "{} does not fit {} at {}", to_string(gathered), to_string(x), to_string(indices));
  return layout;
}

int64_t index_at(const Layout& layout, const std::byte* indices, int64_t i) {
  return layout.index_dtype == TRANSOM_INT32 ? reinterpret_cast<const int32_t*>(indices)[i]
                                             : reinterpret_cast<const int64_t*>(indices)[i];
}

void check_indices(const Layout& layout, const std::byte* indices) {
  if (layout.outer == 0 || layout.inner == 0) return;
  for (int64_t i = 0; i < layout.indices; ++i)
    if (const int64_t index = index_at(layout, indices, i); index < 0 || index >= layout.extent)
      fail(TRANSOM_INVALID_ARGUMENT, "expected indices in [0, {}), found {} at place {}", layout.extent, index, i);
}

// Rows of one number: too little for a call, and a division, each.
template <typename Number, typename Index>
void gather_numbers(const Layout& layout, const Arguments& arguments) {
  const auto* indices = arguments.input<Index>(1);
  const int64_t grain = std::max<int64_t>((1 << 14) / std::max<int64_t>(layout.indices, 1), 1);
  parallel_ranges(layout.outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t outer = begin; outer < end; ++outer) {
      const auto* x = arguments.input<Number>(0) + outer * layout.extent;
      auto* y = arguments.output<Number>() + outer * layout.indices;
      for (int64_t i = 0; i < layout.indices; ++i) y[i] = x[indices[i]];
    }
  });
}

template <typename Number>
void gather_numbers(const Layout& layout, const Arguments& arguments) {
  if (layout.index_dtype == TRANSOM_INT32) gather_numbers<Number, int32_t>(layout, arguments);
  else gather_numbers<Number, int64_t>(layout, arguments);
}

// Of memory that may not be written yet; null: all of it is.
const transom_deferred_parts* deferred_parts(const Arguments& arguments) {
  const transom_buffer* buffer = arguments.input_buffers[0];
  return buffer && arguments.input_offsets[0] == 0 ? buffer->deferred_parts : nullptr;
}

void gather_parts(const Layout& layout, const transom_deferred_parts& parts, const Arguments& arguments, size_t row) {
  parallel_ranges(layout.indices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto part = static_cast<uint64_t>(index_at(layout, arguments.inputs[1], i));
      if (parts.copy(parts.context, part, arguments.outputs[0] + static_cast<size_t>(i) * row) < 0)
        fail(TRANSOM_OUT_OF_MEMORY, "no memory for a part of a weight");
    }
  });
}

Kernel make_gather(const Node& node) {
  const Layout layout = layout_of(node, node.output());
  const size_t row = static_cast<size_t>(layout.inner) * element_size(node.input(0).dtype);
  if (layout.inner == 1 && layout.outer > 1 && row <= 8)
    return {"gather numbers", [=](const Arguments& arguments) {
              check_indices(layout, arguments.inputs[1]);
              if (row == 1) gather_numbers<uint8_t>(layout, arguments);
              else if (row == 2) gather_numbers<uint16_t>(layout, arguments);
              else if (row == 4) gather_numbers<uint32_t>(layout, arguments);
              else gather_numbers<uint64_t>(layout, arguments);
            }};
  return {"gather rows", [=](const Arguments& arguments) {
            const std::byte* x = arguments.inputs[0];
            const std::byte* indices = arguments.inputs[1];
            check_indices(layout, indices);
            if (row == 0) return;  // memory of no bytes need not have an address
            if (const transom_deferred_parts* parts = deferred_parts(arguments); parts && layout.outer == 1)
              return gather_parts(layout, *parts, arguments, row);
            const auto grain = std::max<int64_t>((1 << 16) / static_cast<int64_t>(row + 1), 1);
            // Rows of a large table lie anywhere in memory: the next ones are on their way while one is copied.
            constexpr int64_t kAhead = 8;
            const size_t fetched = std::min<size_t>(row, 512);
            const auto place = [&](int64_t i) {
              const int64_t from = i / layout.indices * layout.extent + index_at(layout, indices, i % layout.indices);
              return x + static_cast<size_t>(from) * row;
            };
            parallel_ranges(layout.outer * layout.indices, grain, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                if (i + kAhead < end) {
                  const std::byte* next = place(i + kAhead);
                  for (size_t at = 0; at < fetched; at += 64) __builtin_prefetch(next + at);
                }
                std::memcpy(arguments.outputs[0] + static_cast<size_t>(i) * row, place(i), row);
              }
            });
          }};
}

// The updates of one row of x, added in the order of the indices in the type that sums are kept in, rounded once. y may
// be x.
template <typename T>
void add_updates(T* y, const T* x, const T* updates, const int64_t* places, size_t count, int64_t inner) {
  if constexpr (std::is_same_v<T, float>) {
    const TileFunction add = vector_kernels().binary[kAdd][kF32];
    for (size_t k = 0; k < count; ++k)
      add(y, k ? y : x, updates + places[k] * inner, nullptr, static_cast<size_t>(inner));
    return;
  }
  constexpr int64_t kTile = 256;
  for (int64_t column = 0; column < inner; column += kTile) {
    const int64_t n = std::min(kTile, inner - column);
    Compute<T> sums[kTile];
    for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<Compute<T>>(x[column + i]);
    for (size_t k = 0; k < count; ++k) {
      const T* update = updates + places[k] * inner + column;
      for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<Compute<T>>(sums[i] + static_cast<Compute<T>>(update[i]));
    }
    for (int64_t i = 0; i < n; ++i) y[column + i] = static_cast<T>(sums[i]);
  }
}

template <typename T>
void scatter_add(const Layout& layout, const Arguments& arguments) {
  const std::byte* indices = arguments.inputs[1];
  check_indices(layout, indices);
  if (layout.inner == 0) return;
  T* y = arguments.output<T>();
  const T* x = arguments.input<T>(0);
  const auto copy_all = [&] {
    if (y == x) return;
    parallel_ranges(layout.outer * layout.extent * layout.inner, 1 << 18, [=](int64_t begin, int64_t end) {
      std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(T));
    });
  };
  // Places sorted by row, so that each row has one thread and keeps the order of its indices. Those of bags are sorted
  // as they come.
  std::vector<int64_t> keys(static_cast<size_t>(layout.indices)), places(keys.size()), rows;
  for (int64_t i = 0; i < layout.indices; ++i) keys[static_cast<size_t>(i)] = index_at(layout, indices, i);
  if constexpr (std::is_same_v<Compute<T>, T>)
    if (layout.outer == 1 && layout.inner == 1) {  // counts: a number an index is no work to share out
      copy_all();
      for (size_t i = 0; i < keys.size(); ++i) y[keys[i]] = static_cast<T>(y[keys[i]] + arguments.input<T>(2)[i]);
      return;
    }
  std::iota(places.begin(), places.end(), 0);
  const auto key = [&](int64_t place) { return keys[static_cast<size_t>(place)]; };
  if (!std::is_sorted(keys.begin(), keys.end()))
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < places.size(); ++i)
    if (i == 0 || key(places[i]) != key(places[i - 1])) rows.push_back(static_cast<int64_t>(i));
  const auto count = static_cast<int64_t>(rows.size());
  if (count == 0) return copy_all();
  rows.push_back(layout.indices);
  // Each task also copies the rows between its own and the one before.
  const auto copy_rows = [&](int64_t outer, int64_t begin, int64_t end) {
    if (y == x || begin >= end) return;
    const int64_t at = (outer * layout.extent + begin) * layout.inner;
    std::memcpy(y + at, x + at, static_cast<size_t>((end - begin) * layout.inner) * sizeof(T));
  };
  const auto row_at = [&](int64_t row) { return key(places[static_cast<size_t>(rows[static_cast<size_t>(row)])]); };
  parallel_ranges(layout.outer * count, std::max<int64_t>((1 << 14) / (layout.inner + 1), 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t task = begin; task < end; ++task) {
                      const int64_t outer = task / count, row = task % count, target = row_at(row);
                      copy_rows(outer, row > 0 ? row_at(row - 1) + 1 : 0, target);
                      if (row + 1 == count) copy_rows(outer, target + 1, layout.extent);
                      const int64_t at = (outer * layout.extent + target) * layout.inner;
                      const auto first = static_cast<size_t>(rows[static_cast<size_t>(row)]),
                                 last = static_cast<size_t>(rows[static_cast<size_t>(row) + 1]);
                      add_updates(y + at, x + at, arguments.input<T>(2) + outer * layout.indices * layout.inner,
                                  places.data() + first, last - first, layout.inner);
                    }
                  });
}

Kernel make_scatter_add(const Node& node) {
  const Layout layout = layout_of(node, node.input(2));
  const transom_dtype dtype = node.input(0).dtype;
  return {"scatter sorted rows", [=](const Arguments& arguments) {
            dispatch(dtype, [&]<typename T>() { scatter_add<T>(layout, arguments); });
          }};
}

// Rows set in the order of the indices; those outside of x set nothing.
Kernel make_scatter(const Node& node) {
  const Type &x = node.input(0), &indices = node.input(1);
  if (x.rank() == 0 || indices.count() * x.count() != node.input(2).count() * x.shape[0])
    fail(TRANSOM_INVALID_ARGUMENT, "{} does not fit the rows of {} at {}", to_string(node.input(2)), to_string(x),
         to_string(indices));
  const Layout layout{1, x.shape[0], product(x.shape, 1, x.rank()), indices.count(), indices.dtype};
  const size_t row = static_cast<size_t>(layout.inner) * element_size(x.dtype);
  const auto bytes = static_cast<int64_t>(x.bytes());
  return {"copy and set rows", [=](const Arguments& arguments) {
            std::byte* y = arguments.outputs[0];
            if (y != arguments.inputs[0])
              parallel_ranges(bytes, 1 << 18, [&](int64_t begin, int64_t end) {
                std::memcpy(y + begin, arguments.inputs[0] + begin, static_cast<size_t>(end - begin));
              });
            if (row == 0) return;  // memory of no bytes need not have an address
            for (int64_t i = 0; i < layout.indices; ++i)
              if (const int64_t to = index_at(layout, arguments.inputs[1], i); to >= 0 && to < layout.extent)
                std::memcpy(y + static_cast<size_t>(to) * row, arguments.inputs[2] + static_cast<size_t>(i) * row, row);
          }};
}

// The window's offset in a tensor of `shape`, each start clamped so that the window fits.
int64_t window_offset(const Shape& shape, const Shape& window, const int64_t* starts) {
  const Shape strides = dense_strides(shape);
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    offset += std::clamp<int64_t>(starts[axis], 0, shape[axis] - window[axis]) * strides[axis];
  return offset;
}

void require_window(const Type& whole, const Type& window, const Type& starts) {
  bool fits = whole.rank() == window.rank() && starts.dtype == TRANSOM_INT64 &&
              starts.count() == static_cast<int64_t>(whole.rank());
  for (size_t axis = 0; fits && axis < whole.rank(); ++axis) fits = window.shape[axis] <= whole.shape[axis];
  if (!fits)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a window inside {} and starts i64[{}], found {} and {}", to_string(whole),
         whole.rank(), to_string(window), to_string(starts));
}

Kernel make_dynamic_slice(const Node& node) {
  const Type x = node.input(0), window = node.output();
  require_window(x, window, node.input(1));
  const size_t size = element_size(x.dtype);
  const StridedCopy copy(window.shape, dense_strides(window.shape), 0, dense_strides(x.shape), 0, size);
  return {"strided copy", [=](const Arguments& arguments) {
            const int64_t offset = window_offset(x.shape, window.shape, arguments.input<int64_t>(1));
            copy.run(arguments.outputs[0], arguments.inputs[0] + static_cast<size_t>(offset) * size);
          }};
}

Kernel make_dynamic_update_slice(const Node& node) {
  const Type x = node.input(0), window = node.input(1);
  require_window(x, window, node.input(2));
  const size_t size = element_size(x.dtype);
  const auto bytes = static_cast<int64_t>(x.bytes());
  const StridedCopy copy(window.shape, dense_strides(x.shape), 0, dense_strides(window.shape), 0, size);
  return {"copy and strided copy", [=](const Arguments& arguments) {
            const int64_t offset = window_offset(x.shape, window.shape, arguments.input<int64_t>(2));
            std::byte* y = arguments.outputs[0];
            if (y != arguments.inputs[0])
              parallel_ranges(bytes, 1 << 18, [&](int64_t begin, int64_t end) {
                std::memcpy(y + begin, arguments.inputs[0] + begin, static_cast<size_t>(end - begin));
              });
            copy.run(y + static_cast<size_t>(offset) * size, arguments.inputs[1]);
          }};
}

}  // namespace

void add_indexing_kernels(KernelTable& table) {
  table["gather"] = make_gather;
  table["scatter_add"] = make_scatter_add;
  table["scatter"] = {make_scatter, [](std::span<const transom_value> inputs, std::span<const transom_attribute>) {
                        return inputs.size() == 3;
                      }};
  table["dynamic_slice"] = make_dynamic_slice;
  table["dynamic_update_slice"] = make_dynamic_update_slice;
}

}  // namespace transom::cpu
