// SPDX-License-Identifier: Apache-2.0
// Convolutions by the library: what its two ways to cut them for the threads share.
#pragma once

#include <memory>

#include "cpu/chunks.h"
#include "cpu/convolution_shape.h"
#include "cpu/library.h"
#include "cpu/memory.h"

namespace transom::cpu {

// Weights in the layout that the library wants, one part of the channels after the other.
class PackedFilters {
 public:
  PackedFilters() = default;
  // Of one part each; `step` elements lie between two parts in the host's weights.
  PackedFilters(const dnnl::memory::desc& host, const dnnl::memory::desc& wanted, int64_t parts, int64_t step);

  bool needed() const { return reordered_; }
  size_t bytes() const { return static_cast<size_t>(parts_) * bytes_; }  // of all parts, packed
  void pack(const std::byte* weights, std::byte* to) const;
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
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  // `packed`: the weights as filters() packs them, or null; then `scratch` has room for them.
  virtual void run(const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
                   const std::byte* packed, const ChunkReader* reader) const = 0;
  virtual size_t scratch_bytes() const = 0;
  virtual const PackedFilters& filters() const = 0;
  virtual bool tells_chunks() const { return false; }
  virtual const char* layout() const = 0;  // that it computes in, for the kernel's name
};

// In the library's blocked layouts, cut into images and parts of the channels (or of the groups).
std::unique_ptr<LibraryConvolution> make_blocked_convolution(const ConvolutionShape& shape, transom_dtype dtype);

// The forward pass with the channels last, cut into bands of rows. Null where the library is slow at that.
std::unique_ptr<LibraryConvolution> make_banded_convolution(const ConvolutionShape& shape, transom_dtype dtype);

}  // namespace transom::cpu
