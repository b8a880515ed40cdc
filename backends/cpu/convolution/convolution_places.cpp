// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes as products by own loops (byte_products): a row for each place of the result, what its window
// shows of a group's channels side by side (im2col). Rows are read as u8: i8 with 128 added, which comes off again with
// the zero point by the sums of the weights. Sums are exact, so that the way does not show in the bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/packed_weight.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kResultsOfTask = 112 << 10;
constexpr int64_t kResultsOfPiece = 16 << 10;
constexpr int64_t kMostWidth = 1024, kMostHeight = 192, kFewPlaces = 64;

struct PlaceWeights : PackedWeight {
  PackedMemory panels;           // of one group behind the other
  std::vector<int32_t> surplus;  // of each column: what the sums have too much
};

// Rows are places, counted through all images; columns are the results of a group.
class PlacesProduct {
 public:
  PlacesProduct(const ConvolutionShape& s, int64_t zero_point)
      : groups_(s.groups),
        all_channels_(s.x[1]),
        all_columns_(s.y[1]),
        channels_(s.x[1] / s.groups),
        columns_(s.y[1] / s.groups),
        channels_last_(s.channels_last) {
    const size_t axes = s.strides.size();
    bool every = true;  // place of x is read
    for (size_t i = 0; i < axes; ++i) {
      const size_t to = 3 - axes + i;
      in_[to] = s.x[2 + i], out_[to] = s.y[2 + i], window_[to] = s.w[2 + i];
      stride_[to] = s.strides[i], low_[to] = s.low[i], dilation_[to] = s.dilations[i];
      every = every && s.strides[i] == 1 && s.low[i] == 0 && s.high[i] == 0;
    }
    in_places_ = in_[0] * in_[1] * in_[2];
    out_places_ = out_[0] * out_[1] * out_[2];
    rows_ = s.y[0] * out_places_;
    taps_ = window_[0] * window_[1] * window_[2];
    depth_ = taps_ * channels_;
    row_ = static_cast<int64_t>(byte_products().padded_depth(static_cast<size_t>(depth_)));
    signed_ = s.dtype == TRANSOM_INT8;
    zero_ = zero_point + (signed_ ? 128 : 0);
    reads_x_ = every && taps_ == 1 && !signed_ && channels_last_ && groups_ == 1 && row_ == depth_;
    cut();
  }

  std::vector<int64_t> key() const { return {-11, groups_, columns_, channels_, taps_, zero_}; }

  // Numbers that follow each other in depth are channels of one place of the window, as they lie with channels last.
  std::shared_ptr<PlaceWeights> pack(const std::byte* weights) const {
    const auto* from = reinterpret_cast<const int8_t*>(weights);  // [groups, columns, channels, taps]
    auto made = std::make_shared<PlaceWeights>();
    made->panels = allocate_packed(static_cast<size_t>(groups_ * padded_ * row_));
    made->surplus.resize(static_cast<size_t>(groups_ * padded_));
    parallel_for(static_cast<size_t>(groups_), [&](size_t group) {
      const int8_t* of_group = from + static_cast<int64_t>(group) * columns_ * depth_;
      byte_products().pack(
          reinterpret_cast<int8_t*>(made->panels.get()) + static_cast<int64_t>(group) * padded_ * row_,
          static_cast<size_t>(depth_), static_cast<size_t>(row_), static_cast<size_t>(columns_),
          [&](size_t k, size_t column) {
            const auto place = static_cast<int64_t>(k);
            return of_group[static_cast<int64_t>(column) * depth_ + place % channels_ * taps_ + place / channels_];
          });
      for (int64_t i = 0; i < columns_; ++i) {
        int32_t& surplus = made->surplus[group * static_cast<size_t>(padded_) + static_cast<size_t>(i)];
        for (int64_t k = 0; k < depth_; ++k) surplus += static_cast<int32_t>(zero_) * of_group[i * depth_ + k];
      }
    });
    return made;
  }

  void run(const Arguments& arguments, const PlaceWeights& weights) const {
    parallel_for(static_cast<size_t>((rows_ + height_ - 1) / height_ * across_ * groups_), [&](size_t task) {
      const auto index = static_cast<int64_t>(task);
      const int64_t row = index / (across_ * groups_) * height_, first = index % across_ * width_;
      run_block(arguments, weights, index / across_ % groups_, row, std::min(height_, rows_ - row), first,
                std::min(width_, columns_ - first));
    });
  }

 private:
  // Into tasks of some rows and columns.
  void cut() {
    const auto panel = static_cast<int64_t>(byte_products().width), threads = static_cast<int64_t>(thread_count());
    padded_ = (columns_ + panel - 1) / panel * panel;
    across_ = (columns_ + kMostWidth - 1) / kMostWidth;
    if (rows_ <= kFewPlaces && groups_ == 1) across_ = std::max(across_, threads);  // so that each weight is read once
    width_ = ((columns_ + across_ - 1) / across_ + panel - 1) / panel * panel;
    across_ = (columns_ + width_ - 1) / width_;
    const int64_t most = std::clamp<int64_t>(kResultsOfTask / width_, 6, kMostHeight);
    int64_t down = (rows_ + most - 1) / most;
    while (down * across_ * groups_ % threads != 0 && down < rows_) ++down;
    height_ = (rows_ + down - 1) / down;
  }

  // In pieces whose results are still in the caches when the reader comes to them.
  void run_block(const Arguments& arguments, const PlaceWeights& weights, int64_t group, int64_t row, int64_t height,
                 int64_t first, int64_t count) const {
    const auto panel = static_cast<int64_t>(byte_products().width);
    const int64_t c_row = (count + panel - 1) / panel * panel;
    const int64_t most = std::max<int64_t>(kResultsOfPiece / c_row / 6, 4) * 6;
    const int64_t pieces = (height + most - 1) / most,
                  together = (height + pieces - 1) / pieces;  // no last one of a row
    // Whole panels of rows that nobody reads along are written where they belong.
    const bool direct = !arguments.reader && channels_last_ && c_row == count;
    auto* kept = direct ? nullptr
                        : reinterpret_cast<float*>(thread_scratch(static_cast<size_t>(together * c_row) * sizeof(float),
                                                                  ScratchUse::kChunk));
    const int64_t column = group * columns_ + first;  // of all
    for (int64_t done = 0; done < height; done += together) {
      const int64_t begin = row + done, rows = std::min(together, height - done);
      float* y = direct ? arguments.output<float>() + begin * all_columns_ + column : kept;
      multiply(weights, y, direct ? all_columns_ : c_row, rows_of(arguments, group, begin, rows), rows, group, first,
               count);
      if (!direct && channels_last_) store_rows(arguments, kept, c_row, begin, rows, column, count);
      if (!direct && !channels_last_) store_columns(arguments, kept, c_row, begin, rows, column, count);
    }
  }

  void multiply(const PlaceWeights& weights, float* y, int64_t y_row, const uint8_t* x, int64_t rows, int64_t group,
                int64_t first, int64_t count) const {
    const ByteProducts& products = byte_products();
    const int64_t column = group * padded_ + first;
    ByteOperands operands{};
    operands.a = x, operands.a_row = static_cast<size_t>(row_);
    operands.panels = reinterpret_cast<const int8_t*>(weights.panels.get()) + column * row_;
    operands.panel_step = products.width * static_cast<size_t>(row_);
    operands.rows = static_cast<size_t>(rows), operands.depth = static_cast<size_t>(depth_);
    operands.panel_count = products.panels_of(static_cast<size_t>(count));
    operands.surplus = zero_ == 0 ? nullptr : weights.surplus.data() + column;
    products.multiply_to_floats(y, static_cast<size_t>(y_row), operands);
  }

  // With channels last, what the reader sees alone stays with the thread.
  void store_rows(const Arguments& arguments, float* kept, int64_t c_row, int64_t begin, int64_t rows, int64_t column,
                  int64_t count) const {
    for (int64_t i = 0; i < rows && c_row > count; ++i)
      std::memmove(
          arguments.reader ? kept + i * count : arguments.output<float>() + (begin + i) * all_columns_ + column,
          kept + i * c_row, static_cast<size_t>(count) * sizeof(float));
    if (!arguments.reader) return;
    const auto* data = reinterpret_cast<const std::byte*>(kept);
    if (count == all_columns_)
      arguments.reader->read({begin * all_columns_, rows * all_columns_, 0, 1, data, sizeof(float)});
    else arguments.reader->read({begin * all_columns_ + column, count, all_columns_, rows, data, sizeof(float)});
  }

  // With channels first, image by image.
  void store_columns(const Arguments& arguments, const float* kept, int64_t c_row, int64_t begin, int64_t rows,
                     int64_t column, int64_t count) const {
    for (int64_t done = 0, together = 0; done < rows; done += together) {
      const int64_t image = (begin + done) / out_places_, place = (begin + done) % out_places_;
      together = std::min(rows - done, out_places_ - place);
      const int64_t at = (image * all_columns_ + column) * out_places_ + place;
      float* y = arguments.output<float>() + at;
      for (int64_t c = 0; c < count; ++c)
        for (int64_t i = 0; i < together; ++i) y[c * out_places_ + i] = kept[(done + i) * c_row + c];
      if (arguments.reader) arguments.reader->read({at, together, out_places_, count});
    }
  }

  // What the windows of these places show, [rows, row_]: where it lies, or in memory of the thread, which the reader
  // uses too.
  const uint8_t* rows_of(const Arguments& arguments, int64_t group, int64_t begin, int64_t rows) const {
    const uint8_t* x = arguments.input<uint8_t>(0);
    if (reads_x_) return x + begin * row_;
    Scratch scratch(Scratch::bytes_of<uint8_t>(rows * row_));
    auto* to = scratch.take<uint8_t>(rows * row_);
    for (int64_t i = 0; i < rows; ++i) copy_window(to + i * row_, x, group, begin + i);
    if (signed_)
      for (int64_t i = 0; i < rows * row_; ++i) to[i] ^= 0x80;
    return to;
  }

  // Places outside of x count as zero points.
  void copy_window(uint8_t* to, const uint8_t* x, int64_t group, int64_t row) const {
    const int64_t image = row / out_places_, place = row % out_places_;
    const std::array<int64_t, 3> at{place / out_[2] / out_[1] * stride_[0] - low_[0],
                                    place / out_[2] % out_[1] * stride_[1] - low_[1],
                                    place % out_[2] * stride_[2] - low_[2]};
    const auto zero = static_cast<uint8_t>(signed_ ? zero_ ^ 0x80 : zero_);
    const int64_t step = channels_last_ ? 1 : in_places_, place_step = channels_last_ ? all_channels_ : 1;
    x += image * all_channels_ * in_places_ + group * channels_ * step;
    const auto fill = [&](int64_t count) { std::memset(to, zero, static_cast<size_t>(count)), to += count; };
    const auto copy = [&](const uint8_t* from, int64_t count) {
      std::memcpy(to, from, static_cast<size_t>(count)), to += count;
    };
    const uint8_t* end = to + row_;
    const bool stretches = channels_last_ && groups_ == 1 && dilation_[2] == 1;
    for (int64_t a = 0; a < window_[0]; ++a)
      for (int64_t b = 0; b < window_[1]; ++b) {
        const int64_t z = at[0] + a * dilation_[0], y = at[1] + b * dilation_[1];
        if (z < 0 || z >= in_[0] || y < 0 || y >= in_[1]) {
          fill(window_[2] * channels_);
          continue;
        }
        const uint8_t* line = x + (z * in_[1] + y) * in_[2] * place_step;
        if (stretches) {  // with what is outside on both sides
          const int64_t left = std::clamp<int64_t>(-at[2], 0, window_[2]),
                        right = std::clamp<int64_t>(at[2] + window_[2] - in_[2], 0, window_[2] - left);
          fill(left * channels_);
          if (left + right < window_[2])
            copy(line + (at[2] + left) * channels_, (window_[2] - left - right) * channels_);
          fill(right * channels_);
          continue;
        }
        for (int64_t c = 0; c < window_[2]; ++c) {
          const int64_t in_line = at[2] + c * dilation_[2];
          if (in_line < 0 || in_line >= in_[2]) {
            fill(channels_);
          } else if (channels_last_) {
            copy(line + in_line * place_step, channels_);
          } else {
            for (int64_t k = 0; k < channels_; ++k) *to++ = line[in_line + k * step];
          }
        }
      }
    std::memset(to, 0, static_cast<size_t>(end - to));
  }

  int64_t groups_, all_channels_, all_columns_, channels_, columns_;  // the last two of a group
  bool channels_last_;
  int64_t rows_, in_places_, out_places_, taps_, depth_, row_;  // row_: depth in whole groups of byte_products
  int64_t padded_;                                              // columns in whole panels
  bool signed_, reads_x_;
  int64_t zero_;  // as u8
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1}, window_{1, 1, 1}, stride_{1, 1, 1}, low_{0, 0, 0},
      dilation_{1, 1, 1};
  int64_t across_, width_, height_;  // of tasks
};

}  // namespace

Kernel integer_convolution_of_places(const ConvolutionShape& shape, int64_t zero_point, bool frozen) {
  Kernel kernel = packed_kernel(fmt::format("places {} i8, {}", dtype_name(shape.dtype), byte_products().name),
                                std::make_shared<const PlacesProduct>(shape, zero_point), frozen);
  kernel.has_epilogue = true;
  return kernel;
}

}  // namespace transom::cpu
