// SPDX-License-Identifier: Apache-2.0
// Which blocks of pictures beside the tokens (KeyValueCache::sources) the tokens of a text see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/generative.h"

namespace transom {

// A picture of a text, whose parts lie in these blocks.
struct PlacedSource {
  int64_t place = 0;  // where it stands in the text
  std::vector<int32_t> blocks;
  int64_t seen = 0;  // of the blocks, by tokens behind it
};

// What a token sees.
struct SeenBlocks {
  std::vector<int32_t> blocks;
  int64_t reads = 0;  // as SeenSources::reads
};

class SourcesOfText {
 public:
  SourcesOfText() = default;  // of a text without pictures
  explicit SourcesOfText(std::vector<PlacedSource> pictures);
  SeenBlocks at(int64_t place) const;

 private:
  std::vector<PlacedSource> pictures_;  // in order
  std::vector<FilledPlaces> spans_;     // of tokens behind each
};

// The numbers of SeenSources. Letters: N tokens, M blocks that the most seeing one of them sees, rounded up.
struct SourceNumbers {
  std::vector<int32_t> tables, lengths;  // [N, M], [N]
  std::vector<int64_t> reads;            // [N]
  int64_t blocks = 0;                    // M; 0: no token sees any, and all is empty
};

// Of tokens, where blocks have so many rows.
SourceNumbers source_numbers(std::span<const SeenBlocks> tokens, int64_t rows);

}  // namespace transom
