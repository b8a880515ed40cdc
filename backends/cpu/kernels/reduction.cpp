// SPDX-License-Identifier: Apache-2.0
// Sums and extremes over any axes. The input is walked as alternating kept and reduced axes; the innermost run is
// either reduced to a number or added to a row of results. Long reductions are cut at places that depend on the shape
// only, so that results do not depend on the threads.
#include "cpu/kernels/reduction.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "cpu/device/threads.h"
#include "cpu/kernels/column_sums.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr int64_t kColumns = 1024;      // of a row of results that one task makes
constexpr int64_t kMostColumns = 4096;  // the same, where there are pieces of rows for many tasks

// The loop nest of a reduction. `rows` walks the reduced axes outside of the innermost run, `kept` the kept ones.
struct Plan {
  Shape kept_shape, kept_strides;
  Shape row_shape, row_strides;
  int64_t inner = 1;          // length of the innermost run
  bool inner_reduced = true;  // else each of its elements is a result
  int64_t outputs = 1, rows = 1;
  int64_t pieces = 1;  // of the rows (or, if there is one row, of the run)
  int64_t column_blocks = 1;
};

Plan make_plan(const Shape& shape, const Shape& axes) {
  std::vector<bool> reduced(shape.size());
  for (int64_t axis : axes) {
    if (axis < 0 || static_cast<size_t>(axis) >= shape.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected axes below {}, found {}", shape.size(), axis);
    reduced[static_cast<size_t>(axis)] = true;
  }
  // Neighbours of one kind are one axis.
  Shape extents;
  std::vector<bool> kinds;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    if (!extents.empty() && kinds.back() == reduced[axis]) extents.back() *= shape[axis];
    else {
      extents.push_back(shape[axis]);
      kinds.push_back(reduced[axis]);
    }
  }
  Plan plan;
  const Shape strides = dense_strides(extents);
  for (size_t axis = 0; axis + 1 < extents.size(); ++axis) {
    (kinds[axis] ? plan.row_shape : plan.kept_shape).push_back(extents[axis]);
    (kinds[axis] ? plan.row_strides : plan.kept_strides).push_back(strides[axis]);
  }
  if (!extents.empty()) {
    plan.inner = extents.back();
    plan.inner_reduced = kinds.back();
  }
  plan.outputs = product(plan.kept_shape, 0, plan.kept_shape.size());
  plan.rows = product(plan.row_shape, 0, plan.row_shape.size());
  if (!plan.inner_reduced) plan.column_blocks = std::max<int64_t>((plan.inner + kColumns - 1) / kColumns, 1);
  const int64_t divisible = plan.rows > 1 || !plan.inner_reduced ? plan.rows : plan.inner;
  const int64_t each = plan.rows > 1 ? std::min(plan.inner, kColumns) : 1;
  plan.pieces = pieces_of_reduction(divisible * each, divisible);
  if (plan.outputs * plan.column_blocks >= 64) plan.pieces = std::clamp<int64_t>(divisible / 4096, 1, plan.pieces);
  return plan;
}

template <typename T>
T identity(Reduction kind) {
  using Limits = std::numeric_limits<T>;
  if (kind == Reduction::kSum) return T{0};
  if constexpr (Limits::has_infinity) return kind == Reduction::kMax ? -Limits::infinity() : Limits::infinity();
  else return kind == Reduction::kMax ? Limits::lowest() : Limits::max();
}

template <typename T>
T combine(Reduction kind, T x, T y) {
  if (kind == Reduction::kSum) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
    else return x + y;
  }
  if (x != x) return x;
  if (y != y) return y;
  return kind == Reduction::kMax ? std::max(x, y) : std::min(x, y);
}

template <typename T>
const Compute<T>* widened(const T* x, int64_t n, Compute<T>* buffer) {
  if constexpr (std::is_same_v<T, Compute<T>>) return x;
  else {
    const TileFunction load = std::is_same_v<T, Float16> ? vector_kernels().load_f16 : vector_kernels().load_bf16;
    load(buffer, x, nullptr, nullptr, static_cast<size_t>(n));
    return buffer;
  }
}

constexpr int64_t kWiden = 1024;  // 16-bit floats are widened so many at a time

template <typename T>
Compute<T> reduce_run(Reduction kind, const T* x, int64_t n) {
  using Sum = Compute<T>;
  const VectorKernels& kernels = vector_kernels();
  if constexpr (std::is_same_v<Sum, float>) {
    const auto function = kind == Reduction::kSum ? kernels.sum : kind == Reduction::kMax ? kernels.max : kernels.min;
    if constexpr (std::is_same_v<T, float>) return function(x, static_cast<size_t>(n));
    Sum result = identity<Sum>(kind);
    for (int64_t i = 0; i < n; i += kWiden) {
      Sum buffer[kWiden];
      const int64_t part = std::min(kWiden, n - i);
      result = combine(kind, result, function(widened(x + i, part, buffer), static_cast<size_t>(part)));
    }
    return result;
  } else {
    Sum result = identity<Sum>(kind);
    for (int64_t i = 0; i < n; ++i) result = combine(kind, result, static_cast<Sum>(x[i]));
    return result;
  }
}

// sums[i] = combine(sums[i], x[i])
template <typename T>
void reduce_onto(Reduction kind, Compute<T>* sums, const T* x, int64_t n) {
  constexpr Lane lane = std::is_same_v<Compute<T>, float>      ? kF32
                        : std::is_same_v<Compute<T>, double>   ? kF64
                        : std::is_same_v<Compute<T>, int64_t>  ? kI64
                        : std::is_same_v<Compute<T>, int32_t>  ? kI32
                        : std::is_same_v<Compute<T>, uint32_t> ? kU32
                        : std::is_same_v<Compute<T>, int8_t>   ? kI8
                                                               : kU8;
  const BinaryOp op = kind == Reduction::kSum ? kAdd : kind == Reduction::kMax ? kMax : kMin;
  const TileFunction function = vector_kernels().binary[op][lane];
  for (int64_t i = 0; i < n; i += kWiden) {
    Compute<T> buffer[kWiden];
    const int64_t part = std::min(kWiden, n - i);
    function(sums + i, sums + i, widened(x + i, part, buffer), nullptr, static_cast<size_t>(part));
  }
}

// One piece of one result (or of one block of a row of results), into `sums`.
template <typename T>
void reduce_piece(Reduction kind, const Plan& plan, const T* x, int64_t piece, int64_t column, int64_t width,
                  Compute<T>* sums) {
  if (plan.inner_reduced && plan.rows == 1) {
    const int64_t begin = plan.inner * piece / plan.pieces, end = plan.inner * (piece + 1) / plan.pieces;
    *sums = reduce_run(kind, x + begin, end - begin);
    return;
  }
  std::fill_n(sums, width, identity<Compute<T>>(kind));
  const int64_t begin = plan.rows * piece / plan.pieces, end = plan.rows * (piece + 1) / plan.pieces;
  const auto at = [&](int64_t row) { return x + offset_of(row, plan.row_shape, plan.row_strides); };
  if (plan.inner_reduced) {
    for (int64_t row = begin; row < end; ++row) *sums = combine(kind, *sums, reduce_run(kind, at(row), plan.inner));
    return;
  }
  // Some rows by themselves, then all of those: a sum of thousands of rows one by one would lose bits to its own size.
  Compute<T> part[kColumns];
  for (int64_t first = begin; first < end; first += kRowsTogether) {
    Compute<T>* target = first == begin ? sums : part;
    if (first != begin) std::fill_n(part, width, identity<Compute<T>>(kind));
    for (int64_t row = first; row < std::min(first + kRowsTogether, end); ++row)
      reduce_onto(kind, target, at(row) + column, width);
    if (target == part) reduce_onto<Compute<T>>(kind, sums, part, width);
  }
}

template <typename T>
void store_results(T* y, const Compute<T>* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(sums[i]);
}

template <typename T>
void reduce(Reduction kind, const Plan& plan, const Arguments& arguments) {
  using Sum = Compute<T>;
  const int64_t row = plan.inner_reduced ? 1 : plan.inner;  // results for one index of the kept axes
  const T* x = arguments.input<T>(0);
  T* y = arguments.output<T>();
  Sum* partial = reinterpret_cast<Sum*>(arguments.scratch);  // [outputs, pieces, row]
  const int64_t tasks = plan.outputs * plan.pieces * plan.column_blocks;
  const int64_t work = std::max<int64_t>(plan.rows * plan.inner / plan.pieces / plan.column_blocks, 1);
  parallel_ranges(tasks, std::max<int64_t>((1 << 14) / work, 1), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % plan.column_blocks, piece = task / plan.column_blocks % plan.pieces;
      const int64_t output = task / plan.column_blocks / plan.pieces;
      const int64_t column = block * kColumns, width = std::min(kColumns, row - column);
      const T* from = x + offset_of(output, plan.kept_shape, plan.kept_strides);
      Sum own[kColumns];
      Sum* sums = plan.pieces > 1 ? partial + (output * plan.pieces + piece) * row + column : own;
      reduce_piece(kind, plan, from, piece, column, width, sums);
      if (plan.pieces == 1) store_results(y + output * row + column, sums, width);
    }
  });
  if (plan.pieces == 1) return;
  for (int64_t output = 0; output < plan.outputs; ++output) {
    Sum* first = partial + output * plan.pieces * row;
    for (int64_t piece = 1; piece < plan.pieces; ++piece)
      for (int64_t i = 0; i < row; ++i) first[i] = combine(kind, first[i], first[piece * row + i]);
    store_results(y + output * row, first, row);
  }
}

// ---- sums over all rows of a matrix

bool is_column_sum(Reduction kind, const Plan& plan, transom_dtype dtype) {
  return kind == Reduction::kSum && (dtype == TRANSOM_FLOAT32 || is_half(dtype)) && !plan.inner_reduced &&
         plan.kept_shape.empty() && plan.row_shape.size() == 1;
}

Kernel make_column_sum(const Plan& plan, transom_dtype dtype) {
  const int64_t width = plan.inner;
  const RowPieces pieces = pieces_of_column_sums(plan.rows, width);
  const int64_t columns = pieces.count() < 8 ? kColumns : kMostColumns, blocks = (width + columns - 1) / columns;
  const AddRows add = add_rows_function(dtype);
  const auto element = static_cast<int64_t>(element_size(dtype));
  return {fmt::format("reduce rows in {} pieces", pieces.count()),
          [=](const Arguments& arguments) {
            auto* partial = reinterpret_cast<float*>(arguments.scratch);  // [pieces, width]
            parallel_for(static_cast<size_t>(pieces.count() * blocks), [&](size_t task) {
              const int64_t piece = static_cast<int64_t>(task) / blocks;
              const int64_t column = static_cast<int64_t>(task) % blocks * columns;
              const int64_t n = std::min(columns, width - column);
              const std::byte* x = arguments.inputs[0] + column * element;
              float part[kMostColumns];
              add_to_piece(pieces, pieces.begin(piece), pieces.end(piece), partial + piece * width + column, part, n,
                           [&](float* sums, int64_t first, int64_t last) {
                             add(sums, x + first * width * element, static_cast<size_t>(width),
                                 static_cast<size_t>(last - first), static_cast<size_t>(n));
                           });
            });
            add_pieces(partial, pieces.count(), width, width, dtype, arguments.outputs[0]);
          },
          static_cast<size_t>(std::max<int64_t>(pieces.count(), 1) * width) * sizeof(float)};
}

// ---- sums over the places of images whose channels stand last

// Each channel is summed as if its places stood behind each other.
Kernel make_channels_last_sum(const Node& node) {
  const Shape& x = node.input(0).shape;
  if (x.size() < 3 || node.input(0).dtype != TRANSOM_FLOAT32 || node.output().dtype != TRANSOM_FLOAT32 ||
      node.output().shape != Shape{x.front(), x.back()})
    fail(TRANSOM_INVALID_ARGUMENT, "expected f32 [N, spatial..., C] and [N, C], found {} and {}",
         to_string(node.input(0)), to_string(node.output()));
  const int64_t images = x.front(), channels = x.back(), places = product(x, 1, x.size() - 1);
  const Plan plan = make_plan({images, channels, places}, {2});
  const int64_t pieces = plan.inner_reduced ? plan.pieces : 1;
  constexpr int64_t kChannels = 64;  // of a task: some lines of memory that lie together
  const int64_t blocks = (channels + kChannels - 1) / kChannels;
  const int64_t work = places / pieces * std::min(channels, kChannels);
  return {fmt::format("reduce places{}", pieces > 1 ? " in pieces" : ""),
          [=](const Arguments& arguments) {
            auto* y = arguments.output<float>();
            float* sums = pieces > 1 ? reinterpret_cast<float*>(arguments.scratch) : y;  // [pieces, images, channels]
            const int64_t grain = std::max<int64_t>((1 << 14) / std::max<int64_t>(work, 1), 1);
            parallel_ranges(images * blocks * pieces, grain, [&](int64_t first, int64_t last) {
              for (int64_t task = first; task < last; ++task) {
                const int64_t piece = task % pieces, channel = task / pieces % blocks * kChannels;
                const int64_t image = task / pieces / blocks;
                const int64_t begin = places * piece / pieces, end = places * (piece + 1) / pieces;
                vector_kernels().column_sums(sums + (piece * images + image) * channels + channel,
                                             arguments.input<float>(0) + (image * places + begin) * channels + channel,
                                             static_cast<size_t>(channels), static_cast<size_t>(end - begin),
                                             static_cast<size_t>(std::min(kChannels, channels - channel)));
              }
            });
            if (pieces == 1) return;
            std::copy_n(sums, images * channels, y);
            for (int64_t piece = 1; piece < pieces; ++piece)
              reduce_onto(Reduction::kSum, y, sums + piece * images * channels, images * channels);
          },
          pieces > 1 ? static_cast<size_t>(pieces * images * channels) * sizeof(float) : 0};
}

template <Reduction kind>
Kernel make_reduction(const Node& node) {
  const Type& input = node.input(0);
  const Plan plan = make_plan(input.shape, node.integers("axes"));
  const transom_dtype dtype = input.dtype;
  if (node.output().count() != plan.outputs * (plan.inner_reduced ? 1 : plan.inner))
    fail(TRANSOM_INVALID_ARGUMENT, "{} reduced does not give {}", to_string(input), to_string(node.output()));
  if (is_column_sum(kind, plan, dtype)) return make_column_sum(plan, dtype);
  const int64_t row = plan.inner_reduced ? 1 : plan.inner;
  const size_t scratch = plan.pieces > 1 ? static_cast<size_t>(plan.outputs * plan.pieces * row) * 8 : 0;
  return {fmt::format("reduce {}{}", plan.inner_reduced ? "runs" : "rows", plan.pieces > 1 ? " in pieces" : ""),
          [=](const Arguments& arguments) { dispatch(dtype, [&]<typename T>() { reduce<T>(kind, plan, arguments); }); },
          scratch};
}

}  // namespace

float RowReduction::operator()(const float* row) const {
  const auto piece = [&](int64_t i) {
    const int64_t begin = width * i / pieces, end = width * (i + 1) / pieces;
    return reduce_run(kind, row + begin, end - begin);
  };
  float result = piece(0);
  for (int64_t i = 1; i < pieces; ++i) result = combine(kind, result, piece(i));
  return result;
}

RowReduction row_reduction(const Node& node) {
  const Type& input = node.input(0);
  const Shape axes = node.integers("axes");
  if (input.dtype != TRANSOM_FLOAT32 || axes != Shape{static_cast<int64_t>(input.rank()) - 1})
    fail(TRANSOM_INVALID_ARGUMENT, "expected a reduction of f32 along the last axis, found one of {}",
         to_string(input));
  const Reduction kind = node.op() == "reduce_sum"   ? Reduction::kSum
                         : node.op() == "reduce_max" ? Reduction::kMax
                                                     : Reduction::kMin;
  return {kind, input.shape.back(), make_plan(input.shape, axes).pieces};
}

void add_reduction_kernels(KernelTable& table) {
  table["reduce_sum"] = make_reduction<Reduction::kSum>;
  table["reduce_max"] = make_reduction<Reduction::kMax>;
  table["reduce_min"] = make_reduction<Reduction::kMin>;
  table["channels_last_reduce_sum"] = {make_channels_last_sum, claims_one_f32};
}

}  // namespace transom::cpu
