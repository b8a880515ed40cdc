// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/converted_view.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/files/files.h"
#include "base/memory/huge_pages.h"
#include "base/numbers/half.h"
#include "base/threads/threads.h"

namespace transom {
namespace {

constexpr size_t kChunk = size_t{1} << 16;  // values that a thread converts at a time

template <typename From, typename To>
void convert(const std::byte* from, std::byte* to, size_t count) {
  parallel_for((count + kChunk - 1) / kChunk, [&](size_t chunk) {
    constexpr size_t kTogether = 16;  // what compilers make vectors of
    From values[kTogether];           // the file may hold them at any address
    To results[kTogether];
    for (size_t i = chunk * kChunk, end = std::min(count, i + kChunk); i < end; i += kTogether) {
      const size_t some = std::min(kTogether, end - i);
      std::memcpy(values, from + i * sizeof(From), some * sizeof(From));
      if (some < kTogether) std::fill(values + some, values + kTogether, From());
      for (size_t j = 0; j < kTogether; ++j) results[j] = To(static_cast<float>(values[j]));
      std::memcpy(to + i * sizeof(To), results, some * sizeof(To));
    }
  });
}

template <typename From>
bool convert_from(const std::byte* from, DType dtype, std::byte* to, size_t count) {
  switch (dtype) {
    case DType::kFloat32:
      convert<From, float>(from, to, count);
      return true;
    case DType::kBFloat16:
      convert<From, BFloat16>(from, to, count);
      return true;
    case DType::kFloat16:
      convert<From, Float16>(from, to, count);
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<TensorView> converted_view(const TensorView& view, DType dtype) {
  const size_t count = view.bytes.size() / size_of(view.dtype);
  const std::shared_ptr<std::byte> values = huge_pages(count * size_of(dtype));
  bool done = false;
  if (view.dtype == DType::kFloat32) done = convert_from<float>(view.bytes.data(), dtype, values.get(), count);
  if (view.dtype == DType::kBFloat16) done = convert_from<BFloat16>(view.bytes.data(), dtype, values.get(), count);
  if (view.dtype == DType::kFloat16) done = convert_from<Float16>(view.bytes.data(), dtype, values.get(), count);
  if (!done) return std::nullopt;
  release_mapped(view.bytes);
  return TensorView{dtype, view.shape, {values.get(), count * size_of(dtype)}, values};
}

}  // namespace transom
