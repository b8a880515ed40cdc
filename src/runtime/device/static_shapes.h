// SPDX-License-Identifier: Apache-2.0
// Devices that compile a program anew for each shape (TRANSOM_DEVICE_STATIC_SHAPES): texts padded to few lengths, and
// batches of one size, bound the number of programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace transom {

// Whether the device in use asks for few shapes.
bool wants_static_shapes();

// At most `count` lengths, the last of them `limit`: multiples of 8 that grow by one ratio, so that the part of a batch
// that is padding is bounded by that ratio.
std::vector<int64_t> spaced_lengths(int64_t count, int64_t limit);

constexpr int64_t kLengthBuckets = 16;  // of a device that asks for few shapes, unless told otherwise

// The length that a batch whose longest row has so many tokens is padded to, one of spaced_lengths(); longer rows than
// the limit keep theirs. Empty where each batch keeps its own: `count` is 0, or not given and the device does not care.
using LengthBuckets = std::function<int64_t(int64_t longest)>;
LengthBuckets length_buckets(std::optional<int64_t> count, std::optional<int64_t> limit);

// The number of rows that so many are filled up to: a power of two where the device asks for few shapes.
int64_t row_bucket(int64_t rows);

}  // namespace transom
