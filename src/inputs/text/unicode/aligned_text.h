// SPDX-License-Identifier: Apache-2.0
// Text on its way to tokens: the bytes as they are now, and for each byte the characters of the original it stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom::text {

// Characters begin..end of the original text.
struct Span {
  uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// A character of a rewritten text. change 0: in place of one character; n > 0: inserted; -n: in place of n + 1
// characters.
struct CharacterChange {
  char32_t c = 0;
  int change = 0;
};

struct AlignedText {
  std::string bytes;
  std::vector<Span> origin;  // one for each byte

  AlignedText() = default;
  // `text` as it is; its first character is number `first` of the original.
  explicit AlignedText(std::string_view text, uint32_t first = 0);

  void append(char32_t c, Span span);
  void append(std::string_view text, Span span);
  void append(const AlignedText& other);
  void append(const AlignedText& other, size_t begin, size_t end);
  // The text becomes `changes`, in order. An inserted character stands for the same as the one before it.
  void transform(const std::vector<CharacterChange>& changes);
  size_t size() const { return bytes.size(); }
  bool empty() const { return bytes.empty(); }
  std::string_view view(size_t begin, size_t end) const { return std::string_view(bytes).substr(begin, end - begin); }

  // The original characters of bytes begin..end, which may be none.
  Span original(size_t begin, size_t end) const;
};

// Part of the text: what one call of the model sees, or an added token.
struct Piece {
  uint32_t begin = 0, end = 0;  // bytes
  bool first = false;           // begins where the original text begins
  int64_t token = -1;           // the added token that it is
};

struct Pieces {
  AlignedText text;
  std::vector<Piece> pieces;

  // Cuts each piece that is no added token: cut(view, emit) calls emit(begin, end) with bytes of `view` for what stays,
  // in order. Empty parts are dropped.
  template <typename Cut>
  void split(const Cut& cut) {
    std::vector<Piece> result;
    result.reserve(pieces.size() * 2);
    for (const Piece& piece : pieces) {
      if (piece.token >= 0) {
        result.push_back(piece);
        continue;
      }
      cut(text.view(piece.begin, piece.end), [&](size_t begin, size_t end) {
        if (begin == end) return;
        const auto from = piece.begin + static_cast<uint32_t>(begin), to = piece.begin + static_cast<uint32_t>(end);
        result.push_back({from, to, text.origin[from].begin == 0, -1});
      });
    }
    pieces = std::move(result);
  }

  // Rewrites the text of each piece that is no added token: rewrite(piece, text, out) appends its new text to `out`.
  template <typename Rewrite>
  void rewrite(const Rewrite& rewrite) {
    AlignedText out;
    out.bytes.reserve(text.size() * 2), out.origin.reserve(text.size() * 2);
    for (Piece& piece : pieces) {
      const auto begin = static_cast<uint32_t>(out.size());
      if (piece.token >= 0) {
        out.append(text, piece.begin, piece.end);
      } else {
        rewrite(piece, text, out);
      }
      piece.begin = begin, piece.end = static_cast<uint32_t>(out.size());
    }
    text = std::move(out);
  }
};

}  // namespace transom::text
