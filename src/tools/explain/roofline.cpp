// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/roofline.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "runtime/device/device.h"
#include "transom/compile.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The shortest of several calls with fixed addresses, so that no new memory is touched.
double seconds_of_call(const TensorFunction& function, const std::vector<Tensor>& arguments) {
  const CompiledFunction compiled = compile(function, {.name = "limits", .capture = true, .donated = {}});
  double shortest = 1e30, total = 0;
  for (int i = 0; i < 9 && (i < 3 || total < 0.6); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    { const std::vector<Tensor> results = compiled(arguments); }
    default_device()->synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) shortest = std::min(shortest, seconds);
    total += seconds;
  }
  return shortest;
}

Tensor ones(const Shape& shape, DType dtype) {
  const Tensor tensor = full(shape, 1.0, dtype);
  eval({&tensor, 1});
  return tensor;
}

// Larger until one product takes long enough to be timed well.
double product_rate(DType dtype) {
  double best = 0;
  for (int64_t n = 256; n <= 2048; n *= 2) {
    const std::vector<Tensor> sides{ones({n, n}, dtype), ones({n, n}, dtype)};
    const double seconds =
        seconds_of_call([](const std::vector<Tensor>& x) { return std::vector{matmul(x[0], x[1], kAsGiven)}; }, sides);
    best = std::max(best, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds);
    if (seconds > 0.05) break;
  }
  return best;
}

// y = a + s b on arrays beyond all caches, if the device is quick enough for them. Calls copy their arguments (one read
// and one write each), which counts.
double triad_bandwidth() {
  double rate = 0;
  for (int64_t n = int64_t{1} << 18; n <= int64_t{1} << 24; n *= 4) {
    const Tensor a = ones({n}, DType::kFloat32), b = ones({n}, DType::kFloat32);
    // What the function captures is bound, not copied.
    const double seconds =
        seconds_of_call([&](const std::vector<Tensor>& s) { return std::vector{a + b * s[0]}; }, {Tensor::scalar(0.5)});
    rate = 3.0 * static_cast<double>(n) * sizeof(float) / seconds;
    if (seconds > 0.3) break;
  }
  return rate;
}

}  // namespace

double Limits::products_of(DType dtype) const {
  for (const Products& known : products)
    if (known.dtype == dtype) return known.rate;
  return products.empty() ? 0 : products[0].rate;
}

void Limits::raise(DType dtype, double rate) {
  if (products.empty()) return;
  auto place =
      std::find_if(products.begin(), products.end(), [&](const Products& known) { return known.dtype == dtype; });
  if (place == products.end()) place = products.begin();
  place->rate = std::max(place->rate, rate);
}

double Limits::seconds_of(double operations, double bytes, DType dtype) const {
  const double rate = products_of(dtype);
  return std::max(rate > 0 ? operations / rate : 0, bandwidth > 0 ? bytes / bandwidth : 0);
}

Limits measure_limits() {
  const NoGradient no_gradient;
  Limits limits;
  limits.products.push_back({DType::kFloat32, product_rate(DType::kFloat32)});
  const uint32_t fast = default_device()->properties().fast_dtypes;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    if (fast & (1u << static_cast<uint32_t>(dtype))) limits.products.push_back({dtype, product_rate(dtype)});
  limits.bandwidth = triad_bandwidth();
  return limits;
}

std::string text_of(const Limits& limits) {
  std::string text;
  for (const Limits::Products& products : limits.products)
    text += fmt::format("{} products {:.1f} GFLOP/s, ", name_of(products.dtype), products.rate * 1e-9);
  return text + fmt::format("memory {:.1f} GB/s", limits.bandwidth * 1e-9);
}

}  // namespace transom
