// SPDX-License-Identifier: Apache-2.0
// Convolutions by a vendor's library (cuDNN, MIOpen), where one is found. What it does not take is computed by the
// kernels of lowering/lower_convolution.cpp.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "gpu/api/api.h"
#include "transom/device_plugin.h"

namespace transom::gpu {

// Images x [batch, channels, places], windows w [outputs, channels / groups, taps], results y [batch, outputs, places],
// all dense. Spatial axes are `axes`, two or three; an image of one has a second one of a single element.
struct ConvolutionShape {
  enum Kind { kForward, kToInput, kToWeight } kind = kForward;  // makes y, x or w of the two others
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  size_t axes = 2;
  std::array<int64_t, 3> x{}, w{}, y{}, stride{}, low{}, dilation{};  // the first `axes` count
  transom_dtype dtype = TRANSOM_FLOAT32;                              // sums are of f32
  bool tf32 = false;                                                  // as of ProductShape
  auto operator<=>(const ConvolutionShape&) const = default;
};

// Device memory, at multiples of 16 bytes; of the workspace at one of 256.
struct ConvolutionAddresses {
  void *x, *w, *y, *workspace;
};

// Any thread may call it.
class Convolutions {
 public:
  virtual ~Convolutions() = default;
  virtual const char* name() const = 0;  // "cudnn"
  // The bytes of workspace that it takes; none if the library does not compute it with the same bits at every run. The
  // first question opens the library, and each first one of a shape costs up to some milliseconds.
  virtual std::optional<size_t> workspace_bytes(const ConvolutionShape& shape) = 0;
  // Adds it to the queue, of a shape that it takes.
  virtual void run(Queue& queue, const ConvolutionShape& shape, const ConvolutionAddresses& at) = 0;
};

// Of the vendor whose plugin this is; null where it has none, or TRANSOM_GPU_PRODUCTS is `own`.
std::unique_ptr<Convolutions> open_convolutions(Context& context);

}  // namespace transom::gpu
