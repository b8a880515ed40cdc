// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/movement/copy.h"

#include <algorithm>
#include <cstring>

#include "cpu/device/threads.h"
#include "cpu/vector/transpose.h"

namespace transom::cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;   // elements: less is not worth another thread
constexpr int64_t kBlock = 16;        // of a transposition: 16 rows of 4 bytes are cache lines on both sides
constexpr int64_t kLongBlock = 2048;  // where columns are few, as the channels of a picture

template <typename T>
void copy_row(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t n) {
  if (to_stride == 1 && from_stride == 1) std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  else if (to_stride == 1 && from_stride == 0) std::fill_n(to, n, *from);
  else
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
}

// Few columns, side by side in the target: out[r * step + c] = in[c * in_step + r].
template <int columns, typename T>
void interleave(T* out, int64_t step, const T* in, int64_t in_step, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) out[r * step + c] = in[c * in_step + r];
}

// out[r * step + c] = in[c * in_step + r]
template <typename T>
void transpose_block(T* out, int64_t step, const T* in, int64_t in_step, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[r * step + c] = in[c * in_step + r];
}

// Whole blocks in registers, where the processor has them.
void transpose_block(uint32_t* out, int64_t step, const uint32_t* in, int64_t in_step, int64_t rows, int64_t columns) {
  const TransposedBlocks* blocks = transposed_blocks();
  const int64_t size = blocks ? static_cast<int64_t>(blocks->size) : kBlock + 1;
  if (rows % size != 0 || columns % size != 0) return transpose_block<uint32_t>(out, step, in, in_step, rows, columns);
  for (int64_t r = 0; r < rows; r += size)
    for (int64_t c = 0; c < columns; c += size)
      blocks->transpose(out + r * step + c, static_cast<size_t>(step), in + c * in_step + r,
                        static_cast<size_t>(in_step));
}

}  // namespace

StridedCopy::StridedCopy(const Shape& shape, const Shape& to_strides, int64_t to_offset, const Shape& from_strides,
                         int64_t from_offset, size_t element)
    : nest_(collapse(shape, {to_strides, from_strides})),
      to_offset_(to_offset),
      from_offset_(from_offset),
      element_(element) {
  if (nest_.strides[1].back() == 1 || nest_.strides[0].back() != 1) return;
  for (size_t axis = 0; axis + 1 < nest_.shape.size(); ++axis) {
    if (nest_.strides[1][axis] != 1) continue;
    fast_axis_ = axis;
    transposed_ = true;
  }
}

const char* StridedCopy::name() const { return transposed_ ? "blocked transpose" : "strided copy"; }

void StridedCopy::run(std::byte* to, const std::byte* from) const {
  const auto as = [&]<typename T>(T*) { run_as(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from)); };
  if (element_ == 1) as(static_cast<uint8_t*>(nullptr));
  else if (element_ == 2) as(static_cast<uint16_t*>(nullptr));
  else if (element_ == 4) as(static_cast<uint32_t*>(nullptr));
  else as(static_cast<uint64_t*>(nullptr));
}

template <typename T>
void StridedCopy::run_as(T* to, const T* from) const {
  if (std::find(nest_.shape.begin(), nest_.shape.end(), 0) != nest_.shape.end()) return;
  if (transposed_) run_transposed(to + to_offset_, from + from_offset_);
  else run_rows(to + to_offset_, from + from_offset_);
}

template <typename T>
void StridedCopy::run_rows(T* to, const T* from) const {
  const int64_t inner = nest_.shape.back();
  const int64_t to_stride = nest_.strides[0].back(), from_stride = nest_.strides[1].back();
  if (nest_.shape.size() == 1) {
    parallel_ranges(inner, kGrain, [&](int64_t begin, int64_t end) {
      copy_row(to + begin * to_stride, to_stride, from + begin * from_stride, from_stride, end - begin);
    });
    return;
  }
  const Shape outer(nest_.shape.begin(), nest_.shape.end() - 1);
  parallel_ranges(product(outer, 0, outer.size()), std::max<int64_t>(kGrain / inner, 1),
                  [&](int64_t begin, int64_t end) {
                    // Counting up the outer axes is cheaper than dividing for every row.
                    Shape index(outer.size());
                    int64_t rest = begin, to_at = 0, from_at = 0;
                    for (size_t axis = outer.size(); axis-- > 0; rest /= outer[axis]) {
                      index[axis] = rest % outer[axis];
                      to_at += index[axis] * nest_.strides[0][axis];
                      from_at += index[axis] * nest_.strides[1][axis];
                    }
                    for (int64_t row = begin; row < end; ++row) {
                      copy_row(to + to_at, to_stride, from + from_at, from_stride, inner);
                      for (size_t axis = outer.size(); axis-- > 0;) {
                        to_at += nest_.strides[0][axis];
                        from_at += nest_.strides[1][axis];
                        if (++index[axis] < outer[axis]) break;
                        index[axis] = 0;
                        to_at -= outer[axis] * nest_.strides[0][axis];
                        from_at -= outer[axis] * nest_.strides[1][axis];
                      }
                    }
                  });
}

// The source is contiguous along one axis, the target along another: blocks of both, so that every cache line is used
// whole while it is there.
template <typename T>
void StridedCopy::run_transposed(T* to, const T* from) const {
  const size_t last = nest_.shape.size() - 1;
  const int64_t rows = nest_.shape[fast_axis_], columns = nest_.shape[last];
  const int64_t to_step = nest_.strides[0][fast_axis_], from_step = nest_.strides[1][last];
  LoopNest outer = nest_;
  for (Shape* list : {&outer.shape, &outer.strides[0], &outer.strides[1]}) {
    list->pop_back();
    list->erase(list->begin() + static_cast<std::ptrdiff_t>(fast_axis_));
  }
  const int64_t block = columns <= 4 ? kLongBlock : kBlock;
  const int64_t panels = (rows + block - 1) / block;
  const int64_t tasks = product(outer.shape, 0, outer.shape.size()) * panels;
  parallel_ranges(tasks, std::max<int64_t>(kGrain / (block * columns), 1), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task % panels * block, height = std::min(block, rows - row);
      T* out = to + offset_of(task / panels, outer.shape, outer.strides[0]) + row * to_step;
      const T* in = from + offset_of(task / panels, outer.shape, outer.strides[1]) + row;
      if (columns == 3) {
        interleave<3>(out, to_step, in, from_step, height);
        continue;
      }
      if (columns == 4) {
        interleave<4>(out, to_step, in, from_step, height);
        continue;
      }
      for (int64_t column = 0; column < columns; column += kBlock) {
        const int64_t width = std::min(kBlock, columns - column);
        transpose_block(out + column, to_step, in + column * from_step, from_step, height, width);
      }
    }
  });
}

void copy_rows(std::byte* to, size_t to_step, const std::byte* from, size_t from_step, int64_t rows, size_t bytes) {
  for (int64_t row = 0; row < rows; ++row, to += to_step, from += from_step) std::memcpy(to, from, bytes);
}

void copy_view(std::byte* to, const std::byte* from, const View& view, size_t element) {
  StridedCopy(view.shape, dense_strides(view.shape), 0, view.strides, view.offset, element).run(to, from);
}

}  // namespace transom::cpu
