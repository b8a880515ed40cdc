// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes. The library's are exact where it has VNNI, and takes images without a zero point; all else
// goes through own loops: the places of a window side by side (im2col), in 16 bits and without their zero point, times
// the weights in panels. Both give the sums to the last bit.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/convolution/convolution_library.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/views.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr int64_t kPlacesTogether = 32;  // of a task: their windows stay in the second cache

struct FilterPanels : PackedWeight {
  std::vector<PackedMemory> groups;
};

class OwnIntegerConvolution {
 public:
  OwnIntegerConvolution(const ConvolutionShape& s, int64_t zero_point)
      : s_(s), zero_(zero_point), channels_(s.x[1] / s.groups), results_(s.y[1] / s.groups) {
    const size_t axes = s.strides.size();
    for (size_t i = 0; i < axes; ++i) {
      const size_t to = 3 - axes + i;
      in_[to] = s.x[2 + i], out_[to] = s.y[2 + i], window_[to] = s.w[2 + i];
      stride_[to] = s.strides[i], low_[to] = s.low[i], dilation_[to] = s.dilations[i];
    }
    taps_ = window_[0] * window_[1] * window_[2];
    in_places_ = in_[0] * in_[1] * in_[2];
    out_places_ = out_[0] * out_[1] * out_[2];
    depth_ = channels_ * taps_;
    row_ = (depth_ + 1) / 2 * 2;
    const auto width = static_cast<int64_t>(vector_kernels().byte_panels.width);
    columns_ = (results_ + width - 1) / width * width;
  }

  std::vector<int64_t> key() const { return {-9, s_.groups, results_, channels_, taps_}; }

  // Numbers that follow each other in depth are channels of one place of the window, as they lie with channels last.
  std::shared_ptr<PackedWeight> pack(const std::byte* weights) const {
    auto made = std::make_shared<FilterPanels>();
    made->groups.resize(static_cast<size_t>(s_.groups));
    const auto* w = reinterpret_cast<const int8_t*>(weights);
    parallel_for(static_cast<size_t>(s_.groups), [&](size_t group) {
      std::vector<int8_t> turned(static_cast<size_t>(depth_ * results_));  // [taps, channels, results]
      for (int64_t o = 0; o < results_; ++o)
        for (int64_t c = 0; c < channels_; ++c)
          for (int64_t tap = 0; tap < taps_; ++tap)
            turned[static_cast<size_t>((tap * channels_ + c) * results_ + o)] =
                w[((static_cast<int64_t>(group) * results_ + o) * channels_ + c) * taps_ + tap];
      made->groups[group] = allocate_packed(static_cast<size_t>(columns_ * row_));
      vector_kernels().byte_panels.pack(reinterpret_cast<int8_t*>(made->groups[group].get()), turned.data(),
                                        static_cast<size_t>(depth_), static_cast<size_t>(results_));
    });
    return made;
  }

  void run(const Arguments& arguments, const FilterPanels& weights) const {
    const int64_t blocks = (out_places_ + kPlacesTogether - 1) / kPlacesTogether;
    parallel_for(static_cast<size_t>(s_.x[0] * blocks), [&](size_t task) {
      const int64_t image = static_cast<int64_t>(task) / blocks,
                    first = static_cast<int64_t>(task) % blocks * kPlacesTogether;
      const int64_t count = std::min(kPlacesTogether, out_places_ - first);
      {
        Scratch scratch(Scratch::bytes_of<int16_t>(count * row_) + Scratch::bytes_of<int32_t>(count * columns_));
        auto* windows = scratch.take<int16_t>(count * row_);
        auto* sums = scratch.take<int32_t>(count * columns_);
        for (int64_t group = 0; group < s_.groups; ++group) {
          if (s_.dtype == TRANSOM_INT8) gather_windows<int8_t>(arguments, image, group, first, count, windows);
          else gather_windows<uint8_t>(arguments, image, group, first, count, windows);
          vector_kernels().byte_panels.multiply(
              sums, static_cast<size_t>(columns_), windows, static_cast<size_t>(row_),
              reinterpret_cast<const int8_t*>(weights.groups[static_cast<size_t>(group)].get()),
              static_cast<size_t>(count), static_cast<size_t>(results_), static_cast<size_t>(depth_));
          store_sums(arguments, image, group, first, count, sums);
        }
      }
      if (!arguments.reader) return;
      const int64_t begin = image * s_.y[1] * out_places_;
      if (s_.channels_last) arguments.reader->read({begin + first * s_.y[1], count * s_.y[1]});
      else arguments.reader->read({begin + first, count, out_places_, s_.y[1]});
    });
  }

 private:
  template <typename Byte>
  void gather_windows(const Arguments& arguments, int64_t image, int64_t group, int64_t first, int64_t count,
                      int16_t* windows) const {
    const int64_t step = s_.channels_last ? 1 : in_places_, place_step = s_.channels_last ? s_.x[1] : 1;
    const Byte* x = arguments.input<Byte>(0) + image * s_.x[1] * in_places_ + group * channels_ * step;
    const auto zero = static_cast<int16_t>(zero_);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = first + i;
      const std::array<int64_t, 3> at{place / out_[2] / out_[1], place / out_[2] % out_[1], place % out_[2]};
      int16_t* to = windows + i * row_;
      for (int64_t tap = 0; tap < taps_; ++tap, to += channels_) {
        const std::array<int64_t, 3> in_window{tap / window_[2] / window_[1], tap / window_[2] % window_[1],
                                               tap % window_[2]};
        int64_t from = 0;
        bool inside = true;
        for (size_t axis = 0; axis < 3; ++axis) {
          const int64_t position = at[axis] * stride_[axis] + in_window[axis] * dilation_[axis] - low_[axis];
          inside = inside && position >= 0 && position < in_[axis];
          from = from * in_[axis] + position;
        }
        if (!inside) {
          std::memset(to, 0, static_cast<size_t>(channels_) * sizeof(int16_t));
          continue;
        }
        const Byte* source = x + from * place_step;
        if (step == 1)
          for (int64_t c = 0; c < channels_; ++c) to[c] = static_cast<int16_t>(source[c] - zero);
        else
          for (int64_t c = 0; c < channels_; ++c) to[c] = static_cast<int16_t>(source[c * step] - zero);
      }
      if (row_ > depth_) *to = 0;
    }
  }

  void store_sums(const Arguments& arguments, int64_t image, int64_t group, int64_t first, int64_t count,
                  const int32_t* sums) const {
    const int64_t step = s_.channels_last ? 1 : out_places_, place_step = s_.channels_last ? s_.y[1] : 1;
    float* y = arguments.output<float>() + image * s_.y[1] * out_places_ + group * results_ * step;
    for (int64_t i = 0; i < count; ++i) {
      float* to = y + (first + i) * place_step;
      const int32_t* from = sums + i * columns_;
      if (step == 1)
        for (int64_t o = 0; o < results_; ++o) to[o] = static_cast<float>(from[o]);
      else
        for (int64_t o = 0; o < results_; ++o) to[o * step] = static_cast<float>(from[o]);
    }
  }

  ConvolutionShape s_;
  int64_t zero_, channels_, results_;  // of a group
  int64_t taps_, in_places_, out_places_, depth_, row_, columns_;
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1}, window_{1, 1, 1}, stride_{1, 1, 1}, low_{0, 0, 0},
      dilation_{1, 1, 1};
};

Kernel own_kernel(const ConvolutionShape& shape, int64_t zero_point, bool frozen) {
  const auto made = std::make_shared<const OwnIntegerConvolution>(shape, zero_point);
  Kernel kernel;
  kernel.name = fmt::format("convolution {} i8 panels{}", dtype_name(shape.dtype), frozen ? ", packed" : "");
  kernel.has_epilogue = true;
  kernel.run = [made, frozen](const Arguments& arguments) {
    const auto pack = [&] { return made->pack(arguments.inputs[1]); };
    const std::shared_ptr<PackedWeight> weights =
        frozen ? packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1], made->key(), pack) : pack();
    made->run(arguments, static_cast<const FilterPanels&>(*weights));
  };
  return kernel;
}

Kernel library_kernel(std::shared_ptr<const LibraryConvolution> made, transom_dtype dtype, bool frozen) {
  const bool packs = frozen && made->filters().needed();
  Kernel kernel;
  kernel.name = fmt::format("onednn convolution {} i8 {}{}", dtype_name(dtype), made->way(), packs ? ", packed" : "");
  kernel.has_epilogue = made->has_epilogue();
  kernel.scratch_bytes = made->scratch_bytes();
  kernel.run = [made, packs](const Arguments& arguments) {
    if (!packs)
      return made->run(arguments.inputs[0], arguments.inputs[1], arguments.outputs[0], arguments.scratch, nullptr,
                       arguments.reader);
    const auto kept =
        made->filters().keep(*arguments.input_buffers[1], arguments.input_offsets[1], arguments.inputs[1]);
    made->run(arguments.inputs[0], nullptr, arguments.outputs[0], arguments.scratch, PackedFilters::data(*kept),
              arguments.reader);
  };
  return kernel;
}

}  // namespace

Kernel integer_convolution(const Node& node) {
  const ConvolutionShape shape = convolution_shape(node, ConvolutionKind::kForward);
  const bool bytes = (shape.dtype == TRANSOM_UINT8 || shape.dtype == TRANSOM_INT8) &&
                     node.input(1).dtype == TRANSOM_INT8 && node.output().dtype == TRANSOM_FLOAT32;
  if (!bytes)
    fail(TRANSOM_INVALID_ARGUMENT, "expected u8 or i8 by i8 to f32, found {}, {} and {}", to_string(node.input(0)),
         to_string(node.input(1)), to_string(node.output()));
  const int64_t zero_point = node.integer("zero_point");
  const auto count = [](const Shape& extents) { return product(extents, 0, extents.size()); };
  if (count(shape.x) == 0 || count(shape.w) == 0 || count(shape.y) == 0)
    return {"fill",
            [size = node.output().bytes()](const Arguments& arguments) { std::memset(arguments.outputs[0], 0, size); }};
  const bool frozen = node.frozen(1);
  if (std::optional<Kernel> of_places = integer_convolution_of_places(shape, zero_point, frozen)) return *of_places;
  if (zero_point == 0 && library_multiplies_bytes())
    if (auto made = make_banded_convolution(shape, ConvolutionTypes::of_bytes(shape.dtype)))
      return library_kernel(std::move(made), shape.dtype, frozen);
  return own_kernel(shape, zero_point, frozen);
}

}  // namespace transom::cpu
