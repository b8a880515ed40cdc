// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/token_places.h"

#include <utility>

#include "base/error.h"

namespace transom {

TokenPlaces::TokenPlaces(std::span<const int64_t> text, int64_t token) {
  for (size_t place = 0; place < text.size(); ++place)
    if (text[place] == token) places_.push_back(static_cast<int64_t>(place));
}

std::vector<FilledPlaces> TokenPlaces::take(int64_t count) {
  if (count > left()) fail(ErrorKind::kInternal, "{} places of a text are left, {} are asked for", left(), count);
  std::vector<FilledPlaces> runs;
  for (const size_t end = next_ + static_cast<size_t>(count); next_ < end; ++next_) {
    if (!runs.empty() && runs.back().end() == places_[next_]) ++runs.back().count;
    else runs.push_back({places_[next_], 1});
  }
  return runs;
}

std::optional<AttachedInput> tokens_beside(std::span<const int64_t> text, int64_t token,
                                           const std::vector<bool>& counted) {
  TokenIds ids;
  std::vector<FilledPlaces> places;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == token || (!counted.empty() && !counted[i])) continue;
    const auto place = static_cast<int64_t>(i);
    if (!places.empty() && places.back().end() == place) ++places.back().count;
    else places.push_back({place, 1});
    ids.push_back(text[i]);
  }
  if (ids.empty()) return std::nullopt;
  const auto count = static_cast<int64_t>(ids.size());
  return AttachedInput{.tensors = {{"input_ids", Tensor::from(ids, {1, count})}}, .places = std::move(places)};
}

}  // namespace transom
