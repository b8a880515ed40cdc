// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/computing.h"

#include <fmt/format.h>

namespace transom {

// In each of these a new field of Computing does not compile until it has its place.

std::optional<std::string> key_of(const Computing& computing, const AdapterSet* kept) {
  const auto& [dtype, tf32, int8, batch_invariant, max_predictions, adapters, observer, noise, lookups] = computing;
  if ((adapters && adapters != kept) || observer || noise || lookups) return std::nullopt;
  return fmt::format("{} {}{}{} {} {}", static_cast<int>(dtype), tf32 ? "t" : "", int8 ? "q" : "",
                     batch_invariant ? "i" : "", max_predictions, fmt::ptr(adapters));
}

Computing joined(const Computing& own, const Computing& asked) {
  const auto& [dtype, tf32, int8, batch_invariant, max_predictions, adapters, observer, noise, lookups] = own;
  return {.dtype = dtype != DType::kFloat32 ? dtype : asked.dtype,
          .tf32 = tf32 || asked.tf32,
          .int8 = int8 || asked.int8,
          .batch_invariant = batch_invariant || asked.batch_invariant,
          .max_predictions = asked.max_predictions != 0 ? asked.max_predictions : max_predictions,
          .adapters = asked.adapters ? asked.adapters : adapters,
          .observer = asked.observer ? asked.observer : observer,
          .noise = asked.noise ? asked.noise : noise,
          .lookups = asked.lookups ? asked.lookups : lookups};
}

Tensor autocast_low(const Tensor& x, const Computing& computing) {
  const DType low = computing.dtype;
  return low != DType::kFloat32 && x.dtype() == DType::kFloat32 ? cast(x, low) : x;
}

Tensor autocast_full(const Tensor& x, const Computing& computing) {
  const DType low = computing.dtype;
  return low != DType::kFloat32 && x.dtype() == low ? cast(x, DType::kFloat32) : x;
}

void allow_tf32(Attributes& attributes, DType dtype, const Computing& computing) {
  if (computing.tf32 && dtype == DType::kFloat32) attributes.set(kTf32, int64_t{1});
}

void keep_rows_apart(Attributes& attributes, const Computing& computing) {
  if (computing.batch_invariant) attributes.set(kBatchInvariant, int64_t{1});
}

}  // namespace transom
