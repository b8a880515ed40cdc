// SPDX-License-Identifier: Apache-2.0
// Matrix products by a vendor's library (cuBLASLt, hipBLASLt), where one is found. What it does not take is computed by
// the kernels of lowering/lower_products.cpp.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu/api/api.h"
#include "transom/device_plugin.h"

namespace transom::gpu {

// What the host's own buffers have; views of them, and what users bind, may have as little as an element.
inline constexpr uint32_t kMostAlignment = 64;

// What a library does beside a product.
enum class ProductEpilogue : uint8_t {
  kNone,
  kBias,  // adds vector[n]
  kSums,  // vector[m] = sum over k of x[b, m, k], of one batch: a bias's gradient beside its weight's
};

// out[b, m, n] = sum over k of x[b, m, k] y[b, n, k]; out is dense and row-major. Sums are of f32.
struct ProductShape {
  // How the elements [line, k] of an operand lie: k side by side and lines `leading` elements apart, or, `turned`, the
  // other way around.
  struct Side {
    bool turned = false;
    int64_t leading = 0, batch_stride = 0;
    auto operator<=>(const Side&) const = default;
  };
  int64_t batch = 1, rows = 0, columns = 0, depth = 0;
  Side x, y;
  transom_dtype from = TRANSOM_FLOAT32, to = TRANSOM_FLOAT32;
  ProductEpilogue epilogue = ProductEpilogue::kNone;  // its vector is of type `to`
  bool tf32 = false;                                  // operands of f32 may be rounded to TF32, where the chip has it
  // All operands lie at multiples of so many bytes, a power of two: a library's kernels read 16 bytes at once where
  // they may, and an address that is not what they were chosen for loses the device.
  uint32_t alignment = kMostAlignment;
  auto operator<=>(const ProductShape&) const = default;
};

// Device memory. `vector` is null without an epilogue; the workspace lies at a multiple of 256 bytes.
struct ProductAddresses {
  const void *x, *y;
  void *vector, *out, *workspace;
  // The largest power of two, up to kMostAlignment, that divides the addresses of all operands.
  uint32_t alignment() const {
    uintptr_t bits = kMostAlignment;
    for (const void* address : {x, y, static_cast<const void*>(vector), static_cast<const void*>(out)})
      bits |= reinterpret_cast<uintptr_t>(address);
    return uint32_t{1} << std::countr_zero(bits);
  }
};

// Any thread may call it.
class Products {
 public:
  virtual ~Products() = default;
  virtual const char* name() const = 0;  // "cublasLt"
  // Whether the library computes it. The first question of a shape costs some tens of microseconds.
  virtual bool takes(const ProductShape& shape) = 0;
  virtual size_t workspace_bytes() const = 0;
  // Adds it to the queue. The shape is one that it takes, with the alignment that the addresses have.
  virtual void multiply(Queue& queue, const ProductShape& shape, const ProductAddresses& at) = 0;
};

// Of the vendor whose plugin this is; null where its library is not found, or TRANSOM_GPU_PRODUCTS is `own`.
std::unique_ptr<Products> open_products(Context& context);

}  // namespace transom::gpu
