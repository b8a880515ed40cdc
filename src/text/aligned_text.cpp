// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace transom::text {

void AlignedWriter::append(char32_t c, Span source) {
  char bytes[4];
  append(std::string_view(bytes, encode_character(c, bytes)), source);
}

void AlignedText::reset(std::string_view original) {
  require(original.size() < (uint64_t{1} << 30), "text to tokenize: expected less than 1 GiB, found {} bytes",
          original.size());
  text_.assign(original);
  sources_.clear();
  pieces_.clear();
  if (!original.empty()) pieces_.push_back({0, static_cast<uint32_t>(original.size()), 0, -1});
}

Span AlignedText::source(uint32_t byte) const {
  if (!sources_.empty()) return sources_[byte];
  while (byte > 0 && is_continuation(text_[byte])) --byte;
  return {byte, byte + character_length(text_[byte])};
}

void AlignedText::write_copy(uint32_t begin, uint32_t end, AlignedWriter& writer) const {
  writer.text.append(text_, begin, end - begin);
  if (!sources_.empty()) {
    writer.sources.insert(writer.sources.end(), sources_.begin() + begin, sources_.begin() + end);
    return;
  }
  for (uint32_t at = begin; at < end;) {
    uint32_t length = character_length(text_[at]);
    writer.sources.insert(writer.sources.end(), length, Span{at, at + length});
    at += length;
  }
}

void AlignedText::write_changes(const Piece& piece, const std::vector<CharacterChange>& changes, AlignedWriter& writer,
                                size_t skip) const {
  uint32_t at = piece.begin;
  auto pass = [&](size_t count) {
    for (; count > 0 && at < piece.end; --count) at += character_length(text_[at]);
  };
  pass(skip);
  for (const auto& [character, change] : changes) {
    Span from;
    if (change > 0) from = at > piece.begin ? source(at - 1) : Span{piece.origin, piece.origin};
    else from = source(std::min(at, piece.end - 1));
    writer.append(character, from);
    if (change <= 0) pass(1 + static_cast<size_t>(-change));
  }
}

void AlignedText::take(AlignedWriter& writer) {
  require(writer.text.size() < (uint64_t{1} << 31), "text to tokenize: normalised, it is longer than 2 GiB");
  text_.swap(writer.text);
  sources_.swap(writer.sources);
  pieces_.swap(other_pieces_);
}

}  // namespace transom::text
