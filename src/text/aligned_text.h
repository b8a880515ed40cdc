// SPDX-License-Identifier: Apache-2.0
// The text under work: one buffer in UTF-8, cut into pieces, and for every byte of it the bytes of the original that it
// came from. Normalisers and pre-tokenisers rewrite the buffer and cut the pieces; models read them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::text {

struct Span {
  uint32_t begin = 0, end = 0;
};

// A part of the buffer. One that is an added token already has its id, and is left alone by all that follows.
struct Piece {
  uint32_t begin = 0, end = 0;
  uint32_t origin = 0;  // the byte of the original at which the piece began when it was cut
  int32_t token = -1;
  bool is_token() const { return token >= 0; }
};

// A character that replaces others: `change` is 0 when it stands for one character of the old text, 1 when it is
// inserted, and -n when it stands for one and the n that follow it are dropped. Hugging Face's offsets are defined in
// these terms, so a rewrite that is to give the same offsets is best described in them.
struct CharacterChange {
  char32_t character;
  int change;
};

// What rewriting appends to.
class AlignedWriter {
 public:
  void append(std::string_view bytes, Span source) {
    text.append(bytes);
    sources.insert(sources.end(), bytes.size(), source);
  }
  void append(char32_t c, Span source);

  std::string text;
  std::vector<Span> sources;
};

class AlignedText {
 public:
  // `original` must be valid UTF-8, shorter than 4 GiB. Starts as one piece, or none if it is empty.
  void reset(std::string_view original);

  std::string_view view(const Piece& piece) const { return {text_.data() + piece.begin, piece.end - piece.begin}; }
  std::string_view all() const { return text_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  // Where the byte, or the part, came from, in bytes of the original. An unchanged byte came from its whole character.
  Span source(uint32_t byte) const;
  Span source(uint32_t begin, uint32_t end) const { return {source(begin).begin, source(end - 1).end}; }

  // Rewrites every piece that is no token: `write(piece, writer)` appends what replaces it.
  template <typename Write>
  void rewrite(Write&& write);

  // Appends to `writer` the piece with these changes; `skip` characters of its beginning are dropped first.
  void write_changes(const Piece& piece, const std::vector<CharacterChange>& changes, AlignedWriter& writer,
                     size_t skip = 0) const;
  void write_copy(uint32_t begin, uint32_t end, AlignedWriter& writer) const;

  // Cuts every piece that is no token: `cut(piece, emit)` calls emit(begin, end) or emit(begin, end, token) for each
  // part that remains, in order. Empty parts vanish.
  template <typename Cut>
  void split(Cut&& cut);

  // For changes that keep the place and length of every character (ASCII lower case).
  char* bytes() { return text_.data(); }

 private:
  void take(AlignedWriter& writer);

  std::string text_;
  std::vector<Span> sources_;  // empty while the buffer is the original
  std::vector<Piece> pieces_, other_pieces_;
  AlignedWriter writer_;
};

template <typename Write>
void AlignedText::rewrite(Write&& write) {
  writer_.text.clear();
  writer_.sources.clear();
  other_pieces_.clear();
  for (const Piece& piece : pieces_) {
    Piece moved = piece;
    moved.begin = static_cast<uint32_t>(writer_.text.size());
    if (piece.is_token()) write_copy(piece.begin, piece.end, writer_);
    else write(piece, writer_);
    moved.end = static_cast<uint32_t>(writer_.text.size());
    if (moved.end > moved.begin) other_pieces_.push_back(moved);
  }
  take(writer_);
}

template <typename Cut>
void AlignedText::split(Cut&& cut) {
  other_pieces_.clear();
  for (const Piece& piece : pieces_) {
    if (piece.is_token()) {
      other_pieces_.push_back(piece);
      continue;
    }
    cut(piece, [&](uint32_t begin, uint32_t end, int32_t token = -1) {
      if (begin < end)
        other_pieces_.push_back({begin, end, begin == piece.begin ? piece.origin : source(begin).begin, token});
    });
  }
  pieces_.swap(other_pieces_);
}

}  // namespace transom::text
