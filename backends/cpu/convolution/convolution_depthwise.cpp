// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of f32 (a window of its own for each channel) that move place by place, by own loops with the
// channels last, cut into bands of rows that stay in the second cache for who reads them next. Those with strides are
// the library's: they are bound by the reading of x.
#include <algorithm>
#include <array>

#include "cpu/convolution/convolution_library.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kBandBytes = 128 << 10;
constexpr int64_t kMostRows = 32;  // of a window

class DepthwiseConvolution final : public LibraryConvolution {
 public:
  explicit DepthwiseConvolution(const ConvolutionShape& shape) : s_(in_two_axes(shape)) {
    const int64_t taps = s_.w[2] * s_.w[3], channels = s_.x[1];
    filters_ = PackedFilters(memory::desc({channels, taps}, memory::data_type::f32, memory::format_tag::ab),
                             memory::desc({channels, taps}, memory::data_type::f32, memory::format_tag::ba), 1,
                             channels * taps);
    copies_ = ChannelsLastCopies(s_.x, s_.y, s_.channels_last);
    const auto threads = static_cast<int64_t>(thread_count());
    const int64_t row_bytes = s_.y[1] * s_.y[3] * static_cast<int64_t>(sizeof(float));
    bands_ = std::clamp<int64_t>(s_.y[2] * row_bytes / kBandBytes, 1, s_.y[2]);
    while (s_.y[0] * bands_ % threads != 0 && bands_ < s_.y[2]) ++bands_;
  }

  size_t scratch_bytes() const override { return aligned(filters_.bytes()) + copies_.bytes(); }
  const PackedFilters& filters() const override { return filters_; }
  bool has_epilogue() const override { return s_.channels_last; }
  const char* way() const override { return "depthwise"; }
  const char* by() const override { return vector_kernels().name; }

  void run(const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
           const std::byte* packed, const ChunkReader* reader) const override {
    if (filters_.needed() && !packed) {
      filters_.pack(second, scratch, nullptr);
      packed = scratch;
    }
    const auto* weights = reinterpret_cast<const float*>(filters_.part(0, second, packed));
    copies_.run(first, result, scratch + aligned(filters_.bytes()),
                [&](const float* x, float* y) { compute(x, weights, y, reader); });
  }

 private:
  static ConvolutionShape in_two_axes(ConvolutionShape s) {
    if (s.x.size() == 4) return s;
    for (Shape* shape : {&s.x, &s.y, &s.w}) shape->insert(shape->begin() + 2, 1);
    for (Shape* list : {&s.strides, &s.dilations}) list->insert(list->begin(), 1);
    for (Shape* list : {&s.low, &s.high}) list->insert(list->begin(), 0);
    return s;
  }

  void compute(const float* x, const float* weights, float* y, const ChunkReader* reader) const {
    parallel_for(static_cast<size_t>(s_.y[0] * bands_), [&](size_t task) {
      const auto index = static_cast<int64_t>(task);
      const int64_t image = index / bands_, band = index % bands_;
      const int64_t begin = s_.y[2] * band / bands_, end = s_.y[2] * (band + 1) / bands_;
      const int64_t row = s_.y[3] * s_.y[1], at = (image * s_.y[2] + begin) * row;
      // What only the reader sees stays with the thread.
      float* made = reader ? reinterpret_cast<float*>(thread_scratch(
                                 static_cast<size_t>((end - begin) * row) * sizeof(float), ScratchUse::kChunk))
                           : y + at;
      for (int64_t i = begin; i < end; ++i)
        make_row(made + (i - begin) * row, x + image * s_.x[1] * s_.x[2] * s_.x[3], weights, i);
      if (reader)
        reader->read({at, (end - begin) * row, 0, 1, reinterpret_cast<const std::byte*>(made), sizeof(float)});
    });
  }

  void make_row(float* y, const float* x, const float* weights, int64_t result) const {
    std::array<const float*, kMostRows> rows;
    for (int64_t i = 0; i < s_.w[2]; ++i) {
      const int64_t at = result + i * s_.dilations[0] - s_.low[0];
      rows[static_cast<size_t>(i)] = at < 0 || at >= s_.x[2] ? nullptr : x + at * s_.x[3] * s_.x[1];
    }
    const auto size = [](int64_t extent) { return static_cast<size_t>(extent); };
    const int64_t seen = result + (s_.w[2] - 1) * s_.dilations[0] - s_.low[0] + 1;
    const float* ahead = seen >= 0 && seen < s_.x[2] ? x + seen * s_.x[3] * s_.x[1] : nullptr;
    vector_kernels().depthwise_row(y, {rows.data(), weights, size(s_.w[2]), size(s_.w[3]), size(s_.x[3]), size(s_.x[1]),
                                       size(s_.y[3]), size(s_.dilations[1]), static_cast<ptrdiff_t>(s_.low[1]), ahead});
  }

  ConvolutionShape s_;
  int64_t bands_ = 1;  // of an image
  ChannelsLastCopies copies_;
  PackedFilters filters_;
};

}  // namespace

std::unique_ptr<LibraryConvolution> make_depthwise_convolution(const ConvolutionShape& s, transom_dtype dtype) {
  const bool depthwise = s.groups == s.x[1] && s.groups == s.y[1];
  const bool moves = std::all_of(s.strides.begin(), s.strides.end(), [](int64_t stride) { return stride == 1; });
  const bool fits = moves && s.kind == ConvolutionKind::kForward && dtype == TRANSOM_FLOAT32 && depthwise &&
                    s.x[1] >= static_cast<int64_t>(kDepthwiseChannels) && s.x.size() <= 4 && s.w[2] <= kMostRows;
  return fits ? std::make_unique<DepthwiseConvolution>(s) : nullptr;
}

}  // namespace transom::cpu
