// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/apart/row_panels.h"

#include <algorithm>
#include <atomic>

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/panel_packing.h"

namespace transom::cpu {

RowStorage storage_of(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT32 ? kStoredF32 : dtype == TRANSOM_BFLOAT16 ? kStoredBF16 : kStoredF16;
}

RowPanels::RowPanels(const ProductPlan& plan, transom_dtype stored)
    : n_(plan.n),
      k_(plan.k),
      row_(plan.b.row),
      column_(plan.b.column),
      size_(plan.b.count),
      lanes_(static_cast<int64_t>(row_products().lanes)),
      width_(static_cast<int64_t>(row_products().width)),
      count_((n_ + width_ - 1) / width_),
      dtype_(plan.b.dtype),
      stored_(stored) {}

template <typename T>
void RowPanels::pack_panel(const T* b, int64_t panel, T* to) const {
  const int64_t first = panel * width_, there = std::min(width_, n_ - first), wide = columns(panel, panel + 1);
  if (row_ == 1) return pack_rows_as_panel(b + first * column_, column_, there, k_, wide, to);
  for (int64_t i = 0; i < k_; ++i)
    for (int64_t j = 0; j < wide; ++j) to[i * wide + j] = j < there ? b[i * row_ + (first + j) * column_] : T{};
}

template <typename T>
void RowPanels::pack_all(const T* b, T* to) const {
  for_each([&](int64_t panel) { pack_panel(b, panel, to + panel * k_ * width_); });
}

void RowPanels::pack(const std::byte* b, int64_t panel, std::byte* to) const {
  if (dtype_ == TRANSOM_FLOAT32) pack_panel(reinterpret_cast<const float*>(b), panel, reinterpret_cast<float*>(to));
  else pack_panel(reinterpret_cast<const uint16_t*>(b), panel, reinterpret_cast<uint16_t*>(to));
}

// A checkpoint of bf16 that is computed in f32 has f32 numbers whose lower half is zero. Without it they are half the
// memory, half of what each token reads, and the same numbers. False where one has more than that.
bool RowPanels::pack_upper_halves(const float* b, uint16_t* to) const {
  if (row_ != 1) return false;
  std::atomic<bool> exact{true};
  for_each([&](int64_t panel) {
    if (!exact.load(std::memory_order_relaxed)) return;
    const int64_t first = panel * width_, there = std::min(width_, n_ - first), wide = columns(panel, panel + 1);
    constexpr int64_t kDepthOfPart = 256;
    std::vector<uint16_t> halves(static_cast<size_t>(there * kDepthOfPart));
    uint32_t lower = 0;
    for (int64_t depth = 0; depth < k_; depth += kDepthOfPart) {
      const int64_t some = std::min(kDepthOfPart, k_ - depth);
      for (int64_t row = 0; row < there; ++row)
        lower |= take_upper_halves(b + (first + row) * column_ + depth, some, halves.data() + row * kDepthOfPart);
      if (lower != 0) return exact.store(false, std::memory_order_relaxed);
      pack_rows_as_panel(halves.data(), kDepthOfPart, there, some, wide, to + panel * k_ * width_ + depth * wide);
    }
  });
  return exact;
}

std::shared_ptr<PackedPanels> RowPanels::pack(const std::byte* b) const {
  auto made = std::make_shared<PackedPanels>();
  made->storage = storage_of(dtype_);
  const bool is_bf16 = dtype_ == TRANSOM_FLOAT32 && stored_ == TRANSOM_BFLOAT16;
  if (is_bf16 || (dtype_ == TRANSOM_FLOAT32 && stored_ == dtype_)) {
    const auto* numbers = reinterpret_cast<const float*>(b);
    std::vector<uint16_t> first(static_cast<size_t>(k_));
    // Weights of f32 show it in their first row.
    if (is_bf16 || (row_ == 1 && take_upper_halves(numbers, k_, first.data()) == 0)) {
      made->numbers = allocate_packed(all_bytes(sizeof(uint16_t)));
      auto* to = reinterpret_cast<uint16_t*>(made->numbers.get());
      made->storage = kStoredBF16;
      if (is_bf16) pack_all(reinterpret_cast<const uint16_t*>(b), to);
      if (is_bf16 || pack_upper_halves(numbers, to)) return made;
      made->storage = kStoredF32;
    }
  }
  std::vector<std::byte> cast;
  if (stored_ != dtype_) {
    cast.resize(static_cast<size_t>(size_) * element_size(dtype_));
    convert(stored_, b, dtype_, cast.data(), size_);
    b = cast.data();
  }
  made->numbers = allocate_packed(all_bytes(element_size(dtype_)));
  std::byte* to = made->numbers.get();
  if (dtype_ == TRANSOM_FLOAT32) pack_all(reinterpret_cast<const float*>(b), reinterpret_cast<float*>(to));
  else pack_all(reinterpret_cast<const uint16_t*>(b), reinterpret_cast<uint16_t*>(to));
  return made;
}

}  // namespace transom::cpu
