// SPDX-License-Identifier: Apache-2.0
// Normalisers rewrite the text before it is cut into words.
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "text/components.h"
#include "text/unicode.h"

namespace transom::text {
namespace {

using Changes = std::vector<CharacterChange>;

// Keeps the characters for which `keep` holds, mapped by `map`. Dropped characters belong to the one before them.
template <typename Keep, typename Map>
void filter(AlignedText& text, Keep&& keep, Map&& map) {
  text.rewrite([&](const Piece& piece, AlignedWriter& writer) {
    Changes changes;
    size_t skip = 0;
    for (const char32_t c : to_characters(text.view(piece))) {
      if (keep(c)) changes.push_back({map(c), 0});
      else if (changes.empty()) ++skip;
      else --changes.back().change;
    }
    text.write_changes(piece, changes, writer, skip);
  });
}

// Each character becomes what `expand(c, changes)` appends for it.
template <typename Expand>
void expand_all(AlignedText& text, Expand&& expand) {
  text.rewrite([&](const Piece& piece, AlignedWriter& writer) {
    Changes changes;
    for (const char32_t c : to_characters(text.view(piece))) expand(c, changes);
    text.write_changes(piece, changes, writer);
  });
}

const icu::Normalizer2& icu_normalizer(const icu::Normalizer2* (*instance)(UErrorCode&)) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = instance(status);
  if (U_FAILURE(status)) fail(ErrorKind::kInternal, "ICU gives no normalizer: {}", u_errorName(status));
  return *normalizer;
}

// Canonical (or compatibility) decomposition: the first character of a decomposition stands for the old one, the others
// are inserted; marks are put in the order of their combining classes.
void decompose(AlignedText& text, const icu::Normalizer2& normalizer) {
  if (is_ascii(text.all())) return;
  text.rewrite([&](const Piece& piece, AlignedWriter& writer) {
    Changes changes;
    icu::UnicodeString parts;
    for (const char32_t c : to_characters(text.view(piece))) {
      if (!normalizer.getDecomposition(static_cast<UChar32>(c), parts)) {
        changes.push_back({c, 0});
        continue;
      }
      for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1))
        changes.push_back({static_cast<char32_t>(parts.char32At(i)), i == 0 ? 0 : 1});
    }
    const auto mark = [](const CharacterChange& c) { return u_getCombiningClass(static_cast<UChar32>(c.character)); };
    for (auto begin = changes.begin(); begin != changes.end();) {
      if (mark(*begin) == 0) {
        ++begin;
        continue;
      }
      auto end = begin;
      while (end != changes.end() && mark(*end) != 0) ++end;
      std::stable_sort(begin, end, [&](const auto& a, const auto& b) { return mark(a) < mark(b); });
      begin = end;
    }
    text.write_changes(piece, changes, writer);
  });
}

void lower_case(AlignedText& text) {
  expand_all(text, [](char32_t c, Changes& changes) {
    if (c == 0x130) {  // the one character whose lower case is two
      changes.push_back({'i', 0});
      changes.push_back({0x307, 1});
    } else changes.push_back({simple_lower_case(c), 0});
  });
}

void strip_accents(AlignedText& text) {
  if (is_ascii(text.all())) return;
  filter(
      text, [](char32_t c) { return !is_nonspacing_mark(c); }, [](char32_t c) { return c; });
}

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const Json& json)
      : clean_text_(flag(json, "clean_text", true)),
        chinese_(flag(json, "handle_chinese_chars", true)),
        lower_case_(flag(json, "lowercase", true)),
        strip_accents_(flag(json, "strip_accents", lower_case_)) {}

  void normalize(AlignedText& text) const override {
    const auto layout = [](char32_t c) { return c == '\t' || c == '\n' || c == '\r'; };
    if (clean_text_)
      filter(
          text, [&](char32_t c) { return layout(c) || !(c == 0 || c == 0xFFFD || is_other(c)); },
          [&](char32_t c) { return layout(c) || is_white_space(c) ? U' ' : c; });
    if (chinese_ && !is_ascii(text.all()))
      expand_all(text, [](char32_t c, Changes& changes) {
        if (!is_chinese(c)) return changes.push_back({c, 0});
        changes.push_back({' ', 0});
        changes.push_back({c, 1});
        changes.push_back({' ', 1});
      });
    if (strip_accents_) {
      decompose(text, icu_normalizer(icu::Normalizer2::getNFDInstance));
      strip_accents(text);
    }
    if (lower_case_) lower_case(text);
  }

 private:
  bool clean_text_, chinese_, lower_case_, strip_accents_;
};

// A normaliser that is one function.
class Simple : public Normalizer {
 public:
  explicit Simple(void (*function)(AlignedText&)) : function_(function) {}
  void normalize(AlignedText& text) const override { function_(text); }

 private:
  void (*function_)(AlignedText&);
};

class Sequence : public Normalizer {
 public:
  Sequence(const Json& json, const std::string& where, int depth) {
    if (!json.contains("normalizers") || !json["normalizers"].is_array())
      fail("{}: normalizer Sequence: expected a list of normalizers", where);
    for (const Json& part : json["normalizers"]) parts_.push_back(parse_normalizer(part, where, depth + 1));
  }
  void normalize(AlignedText& text) const override {
    for (const auto& part : parts_)
      if (part) part->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  if (depth > kMaximumDepth) fail("{}: normalizers are nested deeper than {} levels", where, kMaximumDepth);
  const std::string type = component_type(json, where);
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json, where, depth);
  if (type == "Lowercase") return std::make_unique<Simple>(lower_case);
  if (type == "StripAccents") return std::make_unique<Simple>(strip_accents);
  if (type == "NFD")
    return std::make_unique<Simple>(
        [](AlignedText& text) { decompose(text, icu_normalizer(icu::Normalizer2::getNFDInstance)); });
  if (type == "NFKD")
    return std::make_unique<Simple>(
        [](AlignedText& text) { decompose(text, icu_normalizer(icu::Normalizer2::getNFKDInstance)); });
  unknown_component("normalizer", type, {"BertNormalizer", "Lowercase", "NFD", "NFKD", "Sequence", "StripAccents"},
                    where);
}

}  // namespace transom::text
