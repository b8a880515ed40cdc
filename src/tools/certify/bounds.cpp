// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/bounds.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/rules.h"
#include "tools/certify/values.h"

namespace transom::certify {

Bound bound_of(const Operation& operation, DType dtype, bool gradient) {
  const bool half = is_half(dtype);
  // Gradients of composites are long chains, some of them gradients of gradients.
  const bool composite = operation.kind == OperationKind::kComposite;
  if (gradient) return {Scale::kTensor, half ? 16.0 : composite ? 256.0 : 64.0};
  if (operation.error) return half ? operation.error->half : operation.error->wide;
  return composite ? Bound{Scale::kTensor, half ? 8.0 : 32.0} : Bound{};
}

Difference compare(const Array& expected, const Array& found, const Bound& bound, const Array* magnitude,
                   const Array* terms, double floor) {
  Difference worst;
  const DType dtype = expected.type.dtype;
  Array rounded = expected;
  round_to_dtype(rounded);
  if (!expected.floating()) {
    for (size_t i = 0; i < rounded.integer.size(); ++i)
      if (rounded.integer[i] != found.integer[i])
        return {INFINITY, INFINITY, static_cast<int64_t>(i), static_cast<double>(rounded.integer[i]),
                static_cast<double>(found.integer[i])};
    return worst;
  }
  double largest = bound.scale == Scale::kTensor ? floor : 0;
  for (const double x : rounded.real)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < expected.real.size(); ++i) {
    const double e = expected.real[i], r = rounded.real[i], f = found.real[i];
    Difference here{0, 0, static_cast<int64_t>(i), r, f};
    if (f != r && !(std::isnan(f) && std::isnan(r))) {
      const double unit = ulp(bound.scale == Scale::kTensor ? largest : e, dtype);
      const double distance = std::abs(f - e);
      double allowed = bound.units * unit;
      if (bound.scale == Scale::kTerms) {
        const DType sums = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
        const double count = terms ? std::abs(terms->real[i]) : 1;
        allowed += (2 + std::sqrt(count)) * ulp(magnitude ? magnitude->real[i] : e, sums);
      }
      // Halves are computed in float32 and rounded at the end: rounding twice may cost a little more than half a unit.
      if (is_half(dtype)) allowed *= 1 + 1e-3;
      here.ulp = distance / unit;
      here.ratio = bound.scale == Scale::kExact || !std::isfinite(distance) ? INFINITY : distance / allowed;
      // What lies at the end of the range may be rounded to infinity or just not.
      if (std::isfinite(e) && std::isinf(r) && std::isfinite(f) && bound.scale != Scale::kExact)
        here.ratio = distance / allowed;
      if (std::isnan(here.ratio)) here.ratio = INFINITY;
    }
    if (here.ratio > 1) return here;
    if (here.ratio > worst.ratio || worst.place < 0) worst = here;
  }
  return worst;
}

}  // namespace transom::certify
