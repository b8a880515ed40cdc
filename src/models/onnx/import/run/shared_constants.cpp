// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/shared_constants.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/files/files.h"
#include "models/onnx/import/elementwise/element_values.h"

namespace transom::onnx {
namespace {

// Smaller ones are not worth the search.
constexpr size_t kLeastBytes = 4096;
// A file may be made so that all of its tensors have one digest: each is then compared with a few, not with all.
constexpr size_t kMostCandidates = 8;

size_t digest_of(std::span<const std::byte> bytes) {
  constexpr size_t kSample = 1024;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::hash<std::string_view> hash;
  return hash(text.substr(0, kSample)) ^ 3 * hash(text.substr(text.size() / 2, kSample)) ^
         5 * hash(text.substr(text.size() - kSample)) ^ text.size();
}

}  // namespace

Value SharedConstants::value_of(const TensorData& data, const std::string& where) {
  if (data.bytes.size() < kLeastBytes || is_narrower_than_carrier(data.type)) return onnx::value_of(data, where);
  const std::lock_guard lock(mutex_);
  std::vector<Held>& candidates = held_[digest_of(data.bytes)];
  for (const Held& held : candidates) {
    if (held.type != data.type || held.shape != data.shape || held.bytes.size() != data.bytes.size()) continue;
    const bool one_place = held.bytes.data() == data.bytes.data();
    const bool equal = one_place || std::memcmp(held.bytes.data(), data.bytes.data(), data.bytes.size()) == 0;
    if (equal && !one_place) {  // read once, for the comparison
      release_mapped(data.bytes);
      release_mapped(held.bytes);
    }
    if (equal) return held.value;
  }
  Value value = onnx::value_of(data, where);
  if (candidates.size() < kMostCandidates) candidates.push_back({data.type, data.shape, data.bytes, data.owner, value});
  return value;
}

}  // namespace transom::onnx
