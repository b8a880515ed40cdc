// SPDX-License-Identifier: Apache-2.0
// What becomes of the delimiters when a text is split: the five behaviours of the tokenizers library.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace transom::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

inline SplitBehavior split_behavior(std::string_view name, const std::string& where) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail("{}.behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found {}", where,
       quoted(name));
}

// Calls emit(begin, end) for the parts of a text of `size` bytes between and around `delimiters` (ascending ranges).
template <typename Emit>
void split_at(size_t size, const std::vector<std::pair<size_t, size_t>>& delimiters, SplitBehavior behavior,
              const Emit& emit) {
  size_t last = 0;
  switch (behavior) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      for (const auto& [begin, end] : delimiters) {
        emit(last, begin);
        if (behavior == SplitBehavior::kIsolated) emit(begin, end);
        last = end;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      // A delimiter behind another one stands alone.
      for (const auto& [begin, end] : delimiters) emit(last, end), last = end;
      break;
    case SplitBehavior::kMergedWithNext:
      for (const auto& [begin, end] : delimiters) emit(last, begin), last = begin;
      break;
    case SplitBehavior::kContiguous:
      for (size_t i = 0; i < delimiters.size();) {
        const size_t begin = delimiters[i].first;
        size_t end = delimiters[i].second;
        for (++i; i < delimiters.size() && delimiters[i].first == end; ++i) end = delimiters[i].second;
        emit(last, begin);
        emit(begin, end);
        last = end;
      }
      break;
  }
  emit(last, size);
}

}  // namespace transom::text
