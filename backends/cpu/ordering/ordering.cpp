// SPDX-License-Identifier: Apache-2.0
// Operations on the order of elements along one axis: arg_max, arg_min, cumulative_sum, sort, top_k. A line along the
// axis is one task.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"

namespace transom::cpu {
namespace {

// x as [outer, extent, inner]; a line is (outer, inner).
struct Lines {
  int64_t outer, extent, inner;
  int64_t count() const { return outer * inner; }
  int64_t begin(int64_t line) const { return line / inner * extent * inner + line % inner; }
};

Lines lines_of(const Type& x, int64_t axis) {
  if (axis < 0 || static_cast<size_t>(axis) >= x.rank())
    fail(TRANSOM_INVALID_ARGUMENT, "expected an axis below {} of {}, found {}", x.rank(), to_string(x), axis);
  const auto at = static_cast<size_t>(axis);
  return {product(x.shape, 0, at), x.shape[at], product(x.shape, at + 1, x.rank())};
}

template <typename Body>
void for_each_line(const Lines& lines, Body&& body) {
  parallel_ranges(lines.count(), std::max<int64_t>((1 << 13) / (lines.extent + 1), 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) body(line);
  });
}

template <typename T>
bool is_nan(T x) {
  return x != x;
}

template <bool Largest>
Kernel make_arg_extreme(const Node& node) {
  const Lines lines = lines_of(node.input(0), node.integer("axis"));
  const transom_dtype dtype = node.input(0).dtype;
  if (lines.extent == 0 && lines.count() > 0)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an axis with elements, found {}", to_string(node.input(0)));
  return {"arg extreme", [=](const Arguments& arguments) {
            dispatch(dtype, [&]<typename T>() {
              const T* x = arguments.input<T>(0);
              int64_t* y = arguments.output<int64_t>();
              for_each_line(lines, [&](int64_t line) {
                const T* at = x + lines.begin(line);
                auto best = static_cast<Compute<T>>(at[0]);
                int64_t place = 0;
                for (int64_t i = 1; i < lines.extent && !is_nan(best); ++i) {  // NaN counts as the extreme
                  const auto value = static_cast<Compute<T>>(at[i * lines.inner]);
                  if (is_nan(value) || (Largest ? value > best : value < best)) {
                    best = value;
                    place = i;
                  }
                }
                y[line] = place;
              });
            });
          }};
}

Kernel make_cumulative_sum(const Node& node) {
  const Lines lines = lines_of(node.input(0), node.integer("axis"));
  const transom_dtype dtype = node.input(0).dtype;
  return {"running sums", [=](const Arguments& arguments) {
            dispatch(dtype, [&]<typename T>() {
              const T* x = arguments.input<T>(0);
              T* y = arguments.output<T>();
              for_each_line(lines, [&](int64_t line) {
                Compute<T> sum{0};
                for (int64_t i = 0, at = lines.begin(line); i < lines.extent; ++i, at += lines.inner) {
                  if constexpr (std::is_integral_v<T>)
                    sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(x[at]));
                  else sum += static_cast<Compute<T>>(x[at]);
                  y[at] = static_cast<T>(sum);
                }
              });
            });
          }};
}

// Whether x stands before y; NaN at one end in both directions.
template <typename T>
bool before(T x, T y, bool descending, bool nan_last) {
  if (is_nan(x) || is_nan(y)) return is_nan(x) != is_nan(y) && is_nan(nan_last ? y : x);
  return descending ? x > y : x < y;
}

// The first `kept` of each line in order, and their places.
template <typename T>
void order_lines(const Lines& lines, int64_t kept, bool descending, bool nan_last, const Arguments& arguments) {
  const T* x = arguments.input<T>(0);
  T* values = arguments.output<T>(0);
  int64_t* places = arguments.output<int64_t>(1);
  parallel_ranges(lines.count(), std::max<int64_t>(512 / (lines.extent + 1), 1), [&](int64_t begin, int64_t end) {
    std::vector<Compute<T>> line_values(static_cast<size_t>(lines.extent));
    std::vector<int64_t> order(static_cast<size_t>(lines.extent));
    for (int64_t line = begin; line < end; ++line) {
      for (int64_t i = 0; i < lines.extent; ++i)
        line_values[static_cast<size_t>(i)] = static_cast<Compute<T>>(x[lines.begin(line) + i * lines.inner]);
      std::iota(order.begin(), order.end(), 0);
      const auto by_value = [&](int64_t a, int64_t b) {
        const Compute<T> left = line_values[static_cast<size_t>(a)], right = line_values[static_cast<size_t>(b)];
        if (before(left, right, descending, nan_last)) return true;
        return !before(right, left, descending, nan_last) && a < b;
      };
      if (kept < lines.extent) std::nth_element(order.begin(), order.begin() + kept, order.end(), by_value);
      std::sort(order.begin(), order.begin() + kept, by_value);
      const int64_t to = line / lines.inner * kept * lines.inner + line % lines.inner;
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t place = order[static_cast<size_t>(i)];
        values[to + i * lines.inner] = x[lines.begin(line) + place * lines.inner];
        places[to + i * lines.inner] = place;
      }
    }
  });
}

Kernel order_kernel(const Node& node, const Lines& lines, int64_t kept, bool descending, bool nan_last,
                    const char* name) {
  const transom_dtype dtype = node.input(0).dtype;
  if (node.output(1).dtype != TRANSOM_INT64) fail(TRANSOM_INVALID_ARGUMENT, "expected places of i64");
  return {name, [=](const Arguments& arguments) {
            dispatch(dtype, [&]<typename T>() { order_lines<T>(lines, kept, descending, nan_last, arguments); });
          }};
}

Kernel make_sort(const Node& node) {
  const Lines lines = lines_of(node.input(0), node.integer("axis"));
  return order_kernel(node, lines, lines.extent, node.integer("descending") != 0, true, "sort");
}

Kernel make_top_k(const Node& node) {
  const Type& x = node.input(0);
  const Lines lines = lines_of(x, static_cast<int64_t>(x.rank()) - 1);
  const int64_t k = node.integer("k");
  if (k < 0 || k > lines.extent)
    fail(TRANSOM_INVALID_ARGUMENT, "expected k of at most {}, the last extent of {}, found {}", lines.extent,
         to_string(x), k);
  return order_kernel(node, lines, k, true, false, "select and sort");
}

}  // namespace

void add_ordering_kernels(KernelTable& table) {
  table["arg_max"] = make_arg_extreme<true>;
  table["arg_min"] = make_arg_extreme<false>;
  table["cumulative_sum"] = make_cumulative_sum;
  table["sort"] = make_sort;
  table["top_k"] = make_top_k;
}

}  // namespace transom::cpu
