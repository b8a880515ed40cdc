// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes whose window is one place, with the channels last: products of the places' channels with the
// weights by own loops (byte_rows), which run near the peak of the processor where the library's, of so little depth,
// reach two thirds of it. Sums are exact, so that the way does not show in the bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/device/memory.h"
#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/byte_rows.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr int64_t kSumsOfTask = 56 << 10;  // they stay in the second cache, as they are and in f32
constexpr int64_t kMostWidth = 1024, kMostHeight = 192, kFewPlaces = 64;

struct PlaceWeights : PackedWeight {
  PackedMemory panels;
};

class PlacesProduct {
 public:
  explicit PlacesProduct(const ConvolutionShape& s)
      : rows_(s.y[0] * product(s.y, 2, s.y.size())), depth_(s.x[1]), columns_(s.y[1]) {
    const size_t axes = s.strides.size();
    for (size_t i = 0; i < axes; ++i) {
      const size_t to = 3 - axes + i;
      in_[to] = s.x[2 + i], out_[to] = s.y[2 + i], stride_[to] = s.strides[i];
      every_ = every_ && s.strides[i] == 1;
    }
    const auto panel = static_cast<int64_t>(byte_rows()->width), threads = static_cast<int64_t>(thread_count());
    across_ = (columns_ + kMostWidth - 1) / kMostWidth;
    if (rows_ <= kFewPlaces) across_ = std::max(across_, threads);  // so that each weight is read once
    width_ = ((columns_ + across_ - 1) / across_ + panel - 1) / panel * panel;
    across_ = (columns_ + width_ - 1) / width_;
    const int64_t most = std::clamp<int64_t>(kSumsOfTask / width_, 6, kMostHeight);
    int64_t down = (rows_ + most - 1) / most;
    while (down * across_ % threads != 0 && down < rows_) ++down;
    height_ = (rows_ + down - 1) / down;
    zeros_.resize(static_cast<size_t>(columns_));
    ones_.assign(static_cast<size_t>(columns_), 1);
  }

  std::vector<int64_t> key() const { return {-11, columns_, depth_}; }

  // Panels of some columns: groups of four numbers in depth, the columns of each group side by side.
  std::shared_ptr<PackedWeight> pack(const std::byte* weights) const {
    const auto panel = static_cast<int64_t>(byte_rows()->width);
    const auto* from = reinterpret_cast<const int8_t*>(weights);  // [columns, depth]
    auto made = std::make_shared<PlaceWeights>();
    made->panels = allocate_packed(static_cast<size_t>((columns_ + panel - 1) / panel * panel * depth_));
    auto* to = reinterpret_cast<int8_t*>(made->panels.get());
    for (int64_t first = 0; first < columns_; first += panel)
      for (int64_t group = 0; group < depth_ / 4; ++group)
        for (int64_t column = first; column < first + panel; ++column)
          for (int64_t i = 0; i < 4; ++i) *to++ = column < columns_ ? from[column * depth_ + group * 4 + i] : int8_t{0};
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
  void run_block(const Arguments& arguments, const PlaceWeights& weights, int64_t row, int64_t height, int64_t first,
                 int64_t count) const {
    const auto panel = static_cast<int64_t>(byte_rows()->width);
    const int64_t c_row = (count + panel - 1) / panel * panel;
    Scratch scratch(Scratch::bytes_of<int32_t>(height * c_row) +
                    Scratch::bytes_of<uint8_t>(every_ ? 0 : height * depth_));
    auto* sums = scratch.take<int32_t>(height * c_row);
    const uint8_t* x = arguments.input<uint8_t>(0);
    if (every_) {
      x += row * depth_;
    } else {
      auto* chosen = scratch.take<uint8_t>(height * depth_);
      for (int64_t i = 0; i < height; ++i)
        std::memcpy(chosen + i * depth_, x + place_of(row + i) * depth_, static_cast<size_t>(depth_));
      x = chosen;
    }
    const auto* values = reinterpret_cast<const int8_t*>(weights.panels.get());
    for (int64_t column = first; column < first + count; column += panel)
      byte_rows()->multiply(sums + column - first, static_cast<size_t>(c_row), x, static_cast<size_t>(depth_),
                            values + column * depth_, static_cast<size_t>(height), static_cast<size_t>(depth_ / 4));
    // What only the reader sees stays with the thread.
    float* kept = arguments.reader ? reinterpret_cast<float*>(thread_scratch(
                                         static_cast<size_t>(height * count) * sizeof(float), ScratchUse::kChunk))
                                   : nullptr;
    for (int64_t i = 0; i < height; ++i) {
      float* to = kept ? kept + i * count : arguments.output<float>() + (row + i) * columns_ + first;
      vector_kernels().dequantize_row(to, sums + i * c_row, zeros_.data(), ones_.data(), 1, nullptr,
                                      static_cast<size_t>(count));
    }
    if (!kept) return;
    const auto* data = reinterpret_cast<const std::byte*>(kept);
    if (count == columns_) arguments.reader->read({row * columns_, height * columns_, 0, 1, data, sizeof(float)});
    else arguments.reader->read({row * columns_ + first, count, columns_, height, data, sizeof(float)});
  }

  // Of x, which result `row` reads.
  int64_t place_of(int64_t row) const {
    const int64_t line = row / out_[2], plane = line / out_[1], image = plane / out_[0];
    const int64_t from = (image * in_[0] + plane % out_[0] * stride_[0]) * in_[1] + line % out_[1] * stride_[1];
    return from * in_[2] + row % out_[2] * stride_[2];
  }

  int64_t rows_, depth_, columns_;
  bool every_ = true;  // place of x is read
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1}, stride_{1, 1, 1};
  int64_t across_, width_, height_;  // of tasks
  std::vector<int32_t> zeros_;
  std::vector<float> ones_;
};

bool applies(const ConvolutionShape& s, int64_t zero_point) {
  const auto all = [](auto begin, auto end, int64_t value) {
    return std::all_of(begin, end, [=](int64_t i) { return i == value; });
  };
  return byte_rows() && !processor_features().amx_int8 && s.dtype == TRANSOM_UINT8 && zero_point == 0 &&
         s.channels_last && s.groups == 1 && s.x[1] % 4 == 0 && all(s.w.begin() + 2, s.w.end(), 1) &&
         all(s.low.begin(), s.low.end(), 0) && all(s.high.begin(), s.high.end(), 0);
}

}  // namespace

std::optional<Kernel> integer_convolution_of_places(const ConvolutionShape& shape, int64_t zero_point, bool frozen) {
  if (!applies(shape, zero_point)) return std::nullopt;
  const auto made = std::make_shared<const PlacesProduct>(shape);
  Kernel kernel;
  kernel.name = fmt::format("places u8 i8{}", frozen ? ", packed" : "");
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
