// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/static_shapes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "runtime/device/device.h"

namespace transom {
namespace {

constexpr int64_t kShortest = 16, kMultiple = 8;
constexpr int64_t kLongest = 8192;  // where nothing says how long texts may be

}  // namespace

bool wants_static_shapes() { return default_device()->has(TRANSOM_DEVICE_STATIC_SHAPES); }

std::vector<int64_t> spaced_lengths(int64_t count, int64_t limit) {
  require(count >= 1 && limit >= 1, "length_buckets: expected at least one length, found {} up to {}", count, limit);
  std::vector<int64_t> lengths{limit};
  const double shortest = static_cast<double>(std::min(kShortest, limit));
  const double ratio =
      std::pow(static_cast<double>(limit) / shortest, 1.0 / static_cast<double>(std::max(count - 1, int64_t{1})));
  double length = static_cast<double>(limit);
  for (int64_t i = 1; i < count; ++i) {
    length /= ratio;
    const int64_t rounded = (static_cast<int64_t>(std::ceil(length - 1e-6)) + kMultiple - 1) / kMultiple * kMultiple;
    if (rounded < lengths.back()) lengths.push_back(rounded);
  }
  std::reverse(lengths.begin(), lengths.end());
  return lengths;
}

LengthBuckets length_buckets(std::optional<int64_t> count, std::optional<int64_t> limit) {
  if (!count) count = wants_static_shapes() ? kLengthBuckets : 0;
  if (*count == 0) return {};
  return [lengths = spaced_lengths(*count, limit.value_or(kLongest))](int64_t longest) {
    const auto bucket = std::lower_bound(lengths.begin(), lengths.end(), longest);
    return bucket == lengths.end() ? longest : *bucket;
  };
}

int64_t row_bucket(int64_t rows) {
  return wants_static_shapes() ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))) : rows;
}

}  // namespace transom
