// SPDX-License-Identifier: Apache-2.0
#include "work/generation/seen_sources.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "models/vision_language/picture_spans.h"

namespace transom {

SourcesOfText::SourcesOfText(std::vector<PlacedSource> pictures) : pictures_(std::move(pictures)) {
  std::sort(pictures_.begin(), pictures_.end(),
            [](const PlacedSource& a, const PlacedSource& b) { return a.place < b.place; });
  std::vector<int64_t> places;
  for (const PlacedSource& picture : pictures_) places.push_back(picture.place);
  spans_ = spans_of_pictures(places, std::numeric_limits<int64_t>::max());
}

SeenBlocks SourcesOfText::at(int64_t place) const {
  SeenBlocks seen;
  if (pictures_.empty()) return seen;
  const bool before_all = place < pictures_.front().place;
  seen.reads = before_all ? 1 : 2;
  for (size_t i = 0; i < pictures_.size(); ++i) {
    const std::vector<int32_t>& blocks = pictures_[i].blocks;
    if (before_all) seen.blocks.insert(seen.blocks.end(), blocks.begin(), blocks.end());
    else if (place >= spans_[i].begin && place < spans_[i].end())
      seen.blocks.insert(seen.blocks.end(), blocks.begin(), blocks.begin() + pictures_[i].seen);
  }
  return seen;
}

SourceNumbers source_numbers(std::span<const SeenBlocks> tokens, int64_t rows) {
  SourceNumbers numbers;
  size_t most = 0;
  for (const SeenBlocks& token : tokens) most = std::max(most, token.blocks.size());
  if (most == 0) return numbers;
  numbers.blocks = static_cast<int64_t>(std::bit_ceil(most));
  numbers.tables.assign(tokens.size() * static_cast<size_t>(numbers.blocks), 0);
  auto table = numbers.tables.begin();
  for (const SeenBlocks& token : tokens) {
    std::copy(token.blocks.begin(), token.blocks.end(), table);
    table += numbers.blocks;
    const auto count = std::max<int64_t>(static_cast<int64_t>(token.blocks.size()), 1);
    numbers.lengths.push_back(static_cast<int32_t>(count * rows));
    numbers.reads.push_back(token.reads);
  }
  return numbers;
}

}  // namespace transom
