// SPDX-License-Identifier: Apache-2.0
// Convolutions by the library: what its two ways to cut them for the threads share.
#pragma once

#include <functional>
#include <memory>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/device/library.h"
#include "cpu/device/memory.h"
#include "cpu/products/epilogue.h"

namespace transom::cpu {

// Weights in the layout that the library wants, one part of the channels after the other.
class PackedFilters {
 public:
  PackedFilters() = default;
  // Makes of the host's weights what is packed in their place.
  using Transform = std::function<void(const std::byte* weights, std::byte* made)>;

  // Of one part each; `step` elements lie between two parts in the host's weights, or in what `transform` makes of
  // them.
  PackedFilters(const dnnl::memory::desc& host, const dnnl::memory::desc& wanted, int64_t parts, int64_t step,
                Transform transform = {});

  bool needed() const { return reordered_; }
  size_t bytes() const { return static_cast<size_t>(parts_) * bytes_; }  // of all parts, packed
  // What pack() needs besides, while it runs.
  size_t temporary_bytes() const { return transform_ ? static_cast<size_t>(parts_) * step_ : 0; }
  void pack(const std::byte* weights, std::byte* to, std::byte* temporary) const;
  // Packed once for the buffer that keeps them.
  std::shared_ptr<PackedWeight> keep(transom_buffer& buffer, size_t offset, const std::byte* weights) const;
  static const std::byte* data(const PackedWeight& kept);

  // Of one part: out of what was packed, or the host's weights where nothing needs to be packed.
  const std::byte* part(int64_t index, const std::byte* weights, const std::byte* packed) const {
    return reordered_ ? packed + static_cast<size_t>(index) * bytes_ : weights + static_cast<size_t>(index) * step_;
  }

 private:
  int64_t parts_ = 1;
  size_t step_ = 0, bytes_ = 0;  // from part to part
  bool reordered_ = false;
  std::vector<int64_t> key_;  // names the layout
  Reorder reorder_;
  Transform transform_;
};

// For loops over f32 with the channels last: images that have them first are copied there, and the results back.
class ChannelsLastCopies {
 public:
  ChannelsLastCopies() = default;
  ChannelsLastCopies(const Shape& x, const Shape& y, bool channels_last);  // shapes have the channels first
  size_t bytes() const { return (x_ + y_) * sizeof(float); }               // of scratch memory
  void run(const std::byte* x, std::byte* y, std::byte* scratch,
           const std::function<void(const float* x, float* y)>& compute) const;

 private:
  size_t images_ = 0, x_ = 0, y_ = 0;  // elements; none where the channels are last
  Reorder to_last_, from_last_;
};

// The element types of the library's images, weights and results.
struct ConvolutionTypes {
  dnnl::memory::data_type x, w, y;
  explicit ConvolutionTypes(transom_dtype all) : x(library_dtype(all)), w(x), y(x) {}
  // Integers with results of f32; the type of x.
  static ConvolutionTypes of_bytes(transom_dtype x);
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  // `packed`: the weights as filters() packs them, or null; then `scratch` has room for them.
  virtual void run(const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
                   const std::byte* packed, const ChunkReader* reader) const = 0;
  virtual size_t scratch_bytes() const = 0;
  virtual const PackedFilters& filters() const = 0;
  virtual bool has_epilogue() const { return false; }
  // Of computing, for the kernel's name; by whose loops.
  virtual const char* way() const = 0;
  virtual const char* by() const { return "onednn"; }
};

// Windows of 3x3 as products of transformed tiles, forward and gradient of the input, in f32. Null where that does not
// pay.
std::unique_ptr<LibraryConvolution> make_winograd_convolution(const ConvolutionShape& shape, transom_dtype dtype);

// A window of its own for each channel, forward, place by place, in f32. Null for others.
std::unique_ptr<LibraryConvolution> make_depthwise_convolution(const ConvolutionShape& shape, transom_dtype dtype);

// In the library's blocked layouts, cut into images and parts of the channels (or of the groups).
std::unique_ptr<LibraryConvolution> make_blocked_convolution(const ConvolutionShape& shape, transom_dtype dtype);

// The forward pass with the channels last, cut into bands of rows. Null where the library is slow at that.
std::unique_ptr<LibraryConvolution> make_banded_convolution(const ConvolutionShape& shape,
                                                            const ConvolutionTypes& types);

}  // namespace transom::cpu
