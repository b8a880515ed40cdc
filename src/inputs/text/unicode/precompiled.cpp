// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/precompiled.h"

#include <unicode/ubrk.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/base64.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

// Calls action(begin, end) for each grapheme cluster.
template <typename Action>
void each_grapheme(std::string_view text, const Action& action) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    for (size_t i = 0; i < text.size();) {
      const size_t length = text.substr(i, 2) == "\r\n" ? 2 : 1;
      action(i, i + length);
      i += length;
    }
    return;
  }
  UErrorCode error = U_ZERO_ERROR;
  UText source = UTEXT_INITIALIZER;
  utext_openUTF8(&source, text.data(), static_cast<int64_t>(text.size()), &error);
  UBreakIterator* iterator = ubrk_open(UBRK_CHARACTER, "en", nullptr, 0, &error);
  ubrk_setUText(iterator, &source, &error);
  if (U_SUCCESS(error)) {
    int32_t begin = ubrk_first(iterator);
    for (int32_t end = ubrk_next(iterator); end != UBRK_DONE; begin = end, end = ubrk_next(iterator)) {
      action(static_cast<size_t>(begin), static_cast<size_t>(end));
    }
  }
  ubrk_close(iterator);
  utext_close(&source);
  if (U_FAILURE(error)) fail(ErrorKind::kInternal, "ICU cannot find grapheme clusters: {}", u_errorName(error));
}

class Precompiled : public Normalizer {
 public:
  Precompiled(const std::string& base64, const std::string& where) : map_(from_base64(base64, where), where) {}

  void apply(AlignedText& text) const override {
    std::vector<CharacterChange> changes;
    changes.reserve(text.size());
    bool modified = false;
    const auto rewrite = [&](std::string_view part) {
      const auto found = find(part);
      if (!found) return false;
      modified = true;
      const std::u32string before = characters(part), after = characters(*found);
      for (size_t i = 0; i < after.size(); ++i) changes.push_back({after[i], i < before.size() ? 0 : 1});
      const auto removed = std::ssize(before) - std::ssize(after);
      if (removed > 0 && !changes.empty()) changes.back().change -= static_cast<int>(removed);
      return true;
    };
    each_grapheme(text.bytes, [&](size_t begin, size_t end) {
      // Longer clusters are looked up character by character: the tokenizers library does so.
      if (end - begin < 6 && rewrite(text.view(begin, end))) return;
      for (size_t i = begin; i < end;) {
        const size_t at = i;
        const char32_t c = next_character(text.bytes, i);
        if (!rewrite(text.view(at, i))) changes.push_back({c, 0});
      }
    });
    if (modified) text.transform(changes);
  }

 private:
  // The text for the shortest prefix of `part` that the table has.
  std::optional<std::string> find(std::string_view part) const {
    std::optional<std::string> result;
    map_.find(part, [&](size_t, std::string_view text) {
      result = well_formed(text);
      return false;
    });
    return result;
  }

  CharacterMap map_;
};

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& where) {
  require(bytes.size() >= 4, "{}: the table is cut short", where);
  const size_t length = little_endian(bytes, 0);
  require(length % 4 == 0 && length > 0 && length <= bytes.size() - 4,
          "{}: expected a trie of at most {} bytes, found {}", where, bytes.size() - 4, length);
  for (size_t i = 0; i < length; i += 4) trie_.push_back(little_endian(bytes, 4 + i));
  texts_ = bytes.substr(4 + length);
}

std::unique_ptr<Normalizer> make_precompiled_normalizer(const std::string& base64, const std::string& where) {
  return std::make_unique<Precompiled>(base64, where);
}

}  // namespace transom::text
