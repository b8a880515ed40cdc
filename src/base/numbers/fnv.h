// SPDX-License-Identifier: Apache-2.0
// FNV-1a of 64 bits (Fowler, Noll and Vo): a number for bytes that is the same in every process. It keeps no secret.
#pragma once

#include <cstdint>
#include <string_view>

namespace transom {

inline constexpr uint64_t kFnvOffset = 14695981039346656037u, kFnvPrime = 1099511628211u;

// Of what `before` is the hash of, followed by `bytes`.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t before = kFnvOffset) {
  for (const char c : bytes) before = (before ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return before;
}

}  // namespace transom
