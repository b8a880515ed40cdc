// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes with the channels last as products by own loops (byte_rows): a row for each place, what its
// window shows side by side. For windows of one place, where the library's loops, of so little depth, reach two thirds
// of the processor's peak; and for inputs of i8 or with a zero point, where it has none, or slow ones. Rows are read as
// u8: i8 with 128 added, which comes off again with the zero point by the sums of the weights. Sums are exact, so that
// the way does not show in the bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/device/memory.h"
#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/byte_rows.h"

namespace transom::cpu {
namespace {

constexpr int64_t kResultsOfTask = 112 << 10;
constexpr int64_t kResultsOfPiece = 16 << 10;
constexpr int64_t kMostWidth = 1024, kMostHeight = 192, kFewPlaces = 64;

struct PlaceWeights : PackedWeight {
  PackedMemory panels;
  std::vector<int32_t> surplus;  // of each column: what the sums have too much
};

class PlacesProduct {
 public:
  PlacesProduct(const ConvolutionShape& s, int64_t zero_point)
      : rows_(s.y[0] * product(s.y, 2, s.y.size())), channels_(s.x[1]), columns_(s.y[1]) {
    const size_t axes = s.strides.size();
    bool every = true;  // place of x is read
    for (size_t i = 0; i < axes; ++i) {
      const size_t to = 3 - axes + i;
      in_[to] = s.x[2 + i], out_[to] = s.y[2 + i], window_[to] = s.w[2 + i];
      stride_[to] = s.strides[i], low_[to] = s.low[i], dilation_[to] = s.dilations[i];
      every = every && s.strides[i] == 1 && s.low[i] == 0 && s.high[i] == 0;
    }
    taps_ = window_[0] * window_[1] * window_[2];
    depth_ = taps_ * channels_;
    row_ = (depth_ + 3) / 4 * 4;
    signed_ = s.dtype == TRANSOM_INT8;
    zero_ = zero_point + (signed_ ? 128 : 0);
    reads_x_ = every && taps_ == 1 && !signed_ && row_ == depth_;
    const auto panel = static_cast<int64_t>(byte_rows()->width), threads = static_cast<int64_t>(thread_count());
    across_ = (columns_ + kMostWidth - 1) / kMostWidth;
    if (rows_ <= kFewPlaces) across_ = std::max(across_, threads);  // so that each weight is read once
    width_ = ((columns_ + across_ - 1) / across_ + panel - 1) / panel * panel;
    across_ = (columns_ + width_ - 1) / width_;
    const int64_t most = std::clamp<int64_t>(kResultsOfTask / width_, 6, kMostHeight);
    int64_t down = (rows_ + most - 1) / most;
    while (down * across_ % threads != 0 && down < rows_) ++down;
    height_ = (rows_ + down - 1) / down;
  }

  std::vector<int64_t> key() const { return {-11, columns_, channels_, taps_, zero_}; }

  // Panels of some columns: groups of four numbers in depth, the columns of each group side by side. Numbers that
  // follow each other in depth are channels of one place of the window, as they lie in x.
  std::shared_ptr<PackedWeight> pack(const std::byte* weights) const {
    const auto panel = static_cast<int64_t>(byte_rows()->width);
    const auto* from = reinterpret_cast<const int8_t*>(weights);  // [columns, channels, taps]
    const int64_t padded = (columns_ + panel - 1) / panel * panel;
    auto made = std::make_shared<PlaceWeights>();
    made->panels = allocate_packed(static_cast<size_t>(padded * row_));
    made->surplus.resize(static_cast<size_t>(padded));
    auto* to = reinterpret_cast<int8_t*>(made->panels.get());
    for (int64_t first = 0; first < columns_; first += panel)
      for (int64_t group = 0; group < row_; group += 4)
        for (int64_t column = first; column < first + panel; ++column)
          for (int64_t k = group; k < group + 4; ++k) {
            const bool there = column < columns_ && k < depth_;
            *to = there ? from[column * depth_ + k % channels_ * taps_ + k / channels_] : int8_t{0};
            made->surplus[static_cast<size_t>(column)] += static_cast<int32_t>(zero_) * *to++;
          }
    return made;
  }

  void run(const Arguments& arguments, const PlaceWeights& weights) const {
    parallel_for(static_cast<size_t>((rows_ + height_ - 1) / height_ * across_), [&](size_t task) {
      const int64_t row = static_cast<int64_t>(task) / across_ * height_,
                    first = static_cast<int64_t>(task) % across_ * width_;
      run_block(arguments, weights, row, std::min(height_, rows_ - row), first, std::min(width_, columns_ - first));
    });
  }

 private:
  // In pieces whose results are still in the caches when the reader comes to them.
  void run_block(const Arguments& arguments, const PlaceWeights& weights, int64_t row, int64_t height, int64_t first,
                 int64_t count) const {
    const auto panel = static_cast<int64_t>(byte_rows()->width);
    const int64_t c_row = (count + panel - 1) / panel * panel;
    const int64_t most = std::max<int64_t>(kResultsOfPiece / c_row / 6, 4) * 6;
    const int64_t pieces = (height + most - 1) / most,
                  together = (height + pieces - 1) / pieces;  // no last one of a row
    // Whole panels of rows that nobody reads along are written where they belong.
    const bool direct = !arguments.reader && c_row == count;
    auto* kept = direct ? nullptr
                        : reinterpret_cast<float*>(thread_scratch(static_cast<size_t>(together * c_row) * sizeof(float),
                                                                  ScratchUse::kChunk));
    for (int64_t done = 0; done < height; done += together) {
      const int64_t begin = row + done, rows = std::min(together, height - done);
      float* y = direct ? arguments.output<float>() + begin * columns_ + first : kept;
      multiply(weights, y, direct ? columns_ : c_row, rows_of(arguments, begin, rows), rows, first, count);
      if (direct) continue;
      for (int64_t i = 0; i < rows && c_row > count; ++i)
        std::memmove(arguments.reader ? kept + i * count : arguments.output<float>() + (begin + i) * columns_ + first,
                     kept + i * c_row, static_cast<size_t>(count) * sizeof(float));
      if (!arguments.reader) continue;
      const auto* data = reinterpret_cast<const std::byte*>(kept);
      if (count == columns_) arguments.reader->read({begin * columns_, rows * columns_, 0, 1, data, sizeof(float)});
      else arguments.reader->read({begin * columns_ + first, count, columns_, rows, data, sizeof(float)});
    }
  }

  void multiply(const PlaceWeights& weights, float* y, int64_t y_row, const uint8_t* x, int64_t rows, int64_t first,
                int64_t count) const {
    const auto panel = static_cast<int64_t>(byte_rows()->width);
    const auto* values = reinterpret_cast<const int8_t*>(weights.panels.get());
    for (int64_t column = first; column < first + count; column += panel)
      byte_rows()->multiply_to_floats(y + column - first, static_cast<size_t>(y_row), x, static_cast<size_t>(row_),
                                      values + column * row_, static_cast<size_t>(rows), static_cast<size_t>(row_ / 4),
                                      zero_ == 0 ? nullptr : weights.surplus.data() + column);
  }

  // What the windows of these places show, [rows, row_]: where it lies, or in memory of the thread, which the reader
  // uses too.
  const uint8_t* rows_of(const Arguments& arguments, int64_t begin, int64_t rows) const {
    const uint8_t* x = arguments.input<uint8_t>(0);
    if (reads_x_) return x + begin * row_;
    Scratch scratch(Scratch::bytes_of<uint8_t>(rows * row_));
    auto* to = scratch.take<uint8_t>(rows * row_);
    for (int64_t i = 0; i < rows; ++i) copy_window(to + i * row_, x, begin + i);
    if (signed_)
      for (int64_t i = 0; i < rows * row_; ++i) to[i] ^= 0x80;
    return to;
  }

  // Places outside of x count as zero points.
  void copy_window(uint8_t* to, const uint8_t* x, int64_t place) const {
    const int64_t line = place / out_[2], plane = line / out_[1], image = plane / out_[0];
    const std::array<int64_t, 3> at{plane % out_[0] * stride_[0] - low_[0], line % out_[1] * stride_[1] - low_[1],
                                    place % out_[2] * stride_[2] - low_[2]};
    const auto zero = static_cast<uint8_t>(signed_ ? zero_ ^ 0x80 : zero_);
    const auto fill = [&](int64_t count) { std::memset(to, zero, static_cast<size_t>(count)), to += count; };
    const auto copy = [&](const uint8_t* from, int64_t count) {
      std::memcpy(to, from, static_cast<size_t>(count)), to += count;
    };
    const uint8_t* end = to + row_;
    const int64_t across = window_[2] * channels_;
    for (int64_t a = 0; a < window_[0]; ++a)
      for (int64_t b = 0; b < window_[1]; ++b) {
        const int64_t z = at[0] + a * dilation_[0], y = at[1] + b * dilation_[1];
        if (z < 0 || z >= in_[0] || y < 0 || y >= in_[1]) {
          fill(across);
          continue;
        }
        const uint8_t* from = x + ((image * in_[0] + z) * in_[1] + y) * in_[2] * channels_;
        if (dilation_[2] == 1) {  // one stretch, with what is outside on both sides
          const int64_t left = std::clamp<int64_t>(-at[2], 0, window_[2]),
                        right = std::clamp<int64_t>(at[2] + window_[2] - in_[2], 0, window_[2] - left);
          fill(left * channels_);
          if (left + right < window_[2])
            copy(from + (at[2] + left) * channels_, (window_[2] - left - right) * channels_);
          fill(right * channels_);
          continue;
        }
        for (int64_t c = 0; c < window_[2]; ++c) {
          const int64_t place_in_line = at[2] + c * dilation_[2];
          if (place_in_line < 0 || place_in_line >= in_[2]) fill(channels_);
          else copy(from + place_in_line * channels_, channels_);
        }
      }
    std::memset(to, 0, static_cast<size_t>(end - to));
  }

  int64_t rows_, channels_, columns_, taps_, depth_, row_;  // row_: depth in whole groups of four
  bool signed_, reads_x_;
  int64_t zero_;  // as u8
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1}, window_{1, 1, 1}, stride_{1, 1, 1}, low_{0, 0, 0},
      dilation_{1, 1, 1};
  int64_t across_, width_, height_;  // of tasks
};

bool applies(const ConvolutionShape& s, int64_t zero_point) {
  const auto all = [](auto begin, auto end, int64_t value) {
    return std::all_of(begin, end, [=](int64_t i) { return i == value; });
  };
  const bool one_place =
      all(s.w.begin() + 2, s.w.end(), 1) && all(s.low.begin(), s.low.end(), 0) && all(s.high.begin(), s.high.end(), 0);
  return byte_rows() && !processor_features().amx_int8 && s.channels_last && s.groups == 1 &&
         (one_place || s.dtype == TRANSOM_INT8 || zero_point != 0);
}

}  // namespace

std::optional<Kernel> integer_convolution_of_places(const ConvolutionShape& shape, int64_t zero_point, bool frozen) {
  if (!applies(shape, zero_point)) return std::nullopt;
  const auto made = std::make_shared<const PlacesProduct>(shape, zero_point);
  Kernel kernel;
  kernel.name = fmt::format("places {} i8{}", dtype_name(shape.dtype), frozen ? ", packed" : "");
  kernel.has_epilogue = true;
  kernel.run = [made, frozen](const Arguments& arguments) {
    const auto pack = [&] { return made->pack(arguments.inputs[1]); };
    const std::shared_ptr<PackedWeight> weights =
        frozen ? packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1], made->key(), pack) : pack();
    made->run(arguments, static_cast<const PlaceWeights&>(*weights));
  };
  return kernel;
}

}  // namespace transom::cpu
