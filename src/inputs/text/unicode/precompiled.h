// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/text/components/components.h"

namespace transom::text {

// SentencePiece's normalisation table: the length of a double-array trie (Darts-clone), the trie, and the texts that
// its values point to. An error if the table is cut short.
class CharacterMap {
 public:
  CharacterMap(std::string_view bytes, const std::string& where);

  // Calls found(length, text) for each prefix of `part` that the table has, the shortest first, until it returns false.
  // The texts may be ill-formed.
  template <typename Found>
  void find(std::string_view part, const Found& found) const {
    const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); };
    uint32_t node = offset(trie_[0]);
    for (size_t i = 0; i < part.size(); ++i) {
      const auto byte = static_cast<unsigned char>(part[i]);
      node ^= byte;
      if (byte == 0 || node >= trie_.size() || (trie_[node] & 0x800000FF) != byte) return;
      const uint32_t unit = trie_[node];
      node ^= offset(unit);
      if ((unit & 0x100) == 0) continue;
      const size_t at = node < trie_.size() ? trie_[node] & 0x7FFFFFFF : texts_.size();
      if (at >= texts_.size()) return;
      if (!found(i + 1, std::string_view(texts_).substr(at, texts_.find('\0', at) - at))) return;
    }
  }

 private:
  std::vector<uint32_t> trie_;
  std::string texts_;  // each ends with a zero
};

// The table in base64, applied as the tokenizers library does: to grapheme clusters.
std::unique_ptr<Normalizer> make_precompiled_normalizer(const std::string& base64, const std::string& where);

}  // namespace transom::text
