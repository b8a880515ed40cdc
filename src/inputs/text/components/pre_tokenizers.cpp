// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "inputs/text/components/components.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/components/metaspace.h"
#include "inputs/text/components/split_behavior.h"
#include "inputs/text/unicode/byte_level.h"
#include "inputs/text/unicode/pattern.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

using Ranges = std::vector<std::pair<size_t, size_t>>;

// Splits at the characters of a kind.
class CharacterSplit : public PreTokenizer {
 public:
  using Kind = bool (*)(char32_t);
  CharacterSplit(Kind kind, SplitBehavior behavior) : kind_(kind), behavior_(behavior) {}

  void apply(Pieces& pieces) const override {
    Ranges ranges;
    pieces.split([&](std::string_view view, const auto& emit) {
      ranges.clear();
      for (size_t i = 0; i < view.size();) {
        const size_t begin = i;
        if (kind_(next_character(view, i))) ranges.emplace_back(begin, i);
      }
      split_at(view.size(), ranges, behavior_, emit);
    });
  }

 private:
  Kind kind_;
  SplitBehavior behavior_;
};

// Words between spaces, with every punctuation mark a word of its own: BERT's basic tokenizer.
class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.split([](std::string_view view, const auto& emit) {
      size_t word = 0;
      for (size_t i = 0; i < view.size();) {
        const size_t begin = i;
        const char32_t c = next_character(view, i);
        const bool space = is_space(c);
        if (!space && !is_punctuation(c)) continue;
        emit(word, begin);
        if (!space) emit(begin, i);
        word = i;
      }
      emit(word, view.size());
    });
  }
};

// Runs of word characters, and runs of what is neither word character nor space: \w+|[^\w\s]+.
class Whitespace : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    const auto kind = [](char32_t c) { return is_word_character(c) ? 1 : is_space(c) ? 0 : 2; };
    pieces.split([&](std::string_view view, const auto& emit) {
      size_t run = 0;
      int current = 0;
      for (size_t i = 0; i < view.size();) {
        const size_t begin = i;
        const int next = kind(next_character(view, i));
        if (next == current) continue;
        if (current != 0) emit(run, begin);
        run = begin, current = next;
      }
      if (current != 0) emit(run, view.size());
    });
  }
};

class Split : public PreTokenizer {
 public:
  Split(const Json& json, const std::string& where)
      : pattern_(field(json, "pattern", where), where + ".pattern"),
        behavior_(split_behavior(string_field(json, "behavior", where), where)),
        invert_(bool_field(json, "invert", where, false)) {
    // What lies between matches is merged with what precedes it where matches are merged with what follows them.
    if (invert_ && behavior_ == SplitBehavior::kMergedWithPrevious) behavior_ = SplitBehavior::kMergedWithNext;
    else if (invert_ && behavior_ == SplitBehavior::kMergedWithNext) behavior_ = SplitBehavior::kMergedWithPrevious;
  }

  void apply(Pieces& pieces) const override {
    Ranges matches;
    pieces.split([&](std::string_view view, const auto& emit) {
      pattern_.find_all(view, matches);
      if (!invert_ || behavior_ != SplitBehavior::kRemoved) return split_at(view.size(), matches, behavior_, emit);
      for (const auto& [begin, end] : matches) emit(begin, end);
    });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(const Json& json, const std::string& where)
      : add_prefix_space_(bool_field(json, "add_prefix_space", where, true)) {
    if (bool_field(json, "use_regex", where, true)) regex_.emplace(std::string(kByteLevelPattern), where);
  }

  void apply(Pieces& pieces) const override {
    if (add_prefix_space_) {
      pieces.rewrite([](const Piece& piece, const AlignedText& text, AlignedText& out) {
        if (piece.begin < piece.end && first_character(text, piece) != U' ') out.append(U' ', text.origin[piece.begin]);
        out.append(text, piece.begin, piece.end);
      });
    }
    if (regex_) {
      Ranges matches;
      pieces.split([&](std::string_view view, const auto& emit) {
        regex_->find_all(view, matches);
        split_at(view.size(), matches, SplitBehavior::kIsolated, emit);
      });
    }
    const auto& table = byte_characters();
    pieces.rewrite([&](const Piece& piece, const AlignedText& text, AlignedText& out) {
      for (size_t i = piece.begin; i < piece.end; ++i) {
        out.append(table[static_cast<unsigned char>(text.bytes[i])], text.origin[i]);
      }
    });
  }

 private:
  static char32_t first_character(const AlignedText& text, const Piece& piece) {
    size_t at = piece.begin;
    return next_character(text.bytes, at);
  }

  bool add_prefix_space_;
  std::optional<Regex> regex_;
};

// Spaces become the character ▁, which begins a word.
class MetaspacePreTokenizer : public PreTokenizer {
 public:
  MetaspacePreTokenizer(const Json& json, const std::string& where) : metaspace_(json, where) {}

  void apply(Pieces& pieces) const override {
    const std::string& mark = metaspace_.replacement;
    pieces.rewrite([&](const Piece& piece, const AlignedText& text, AlignedText& out) {
      const std::string_view view = text.view(piece.begin, piece.end);
      const bool prepend =
          metaspace_.scheme == PrependScheme::kAlways || (metaspace_.scheme == PrependScheme::kFirst && piece.first);
      if (prepend && !view.empty() && view[0] != ' ' && !view.starts_with(mark))
        out.append(mark, text.origin[piece.begin]);
      for (size_t i = piece.begin; i < piece.end; ++i) {
        if (text.bytes[i] == ' ') {
          out.append(mark, text.origin[i]);
        } else {
          out.append(text, i, i + 1);
        }
      }
    });
    if (!metaspace_.split) return;
    Ranges ranges;
    pieces.split([&](std::string_view view, const auto& emit) {
      ranges.clear();
      for (size_t at = view.find(mark); at != std::string_view::npos; at = view.find(mark, at + mark.size())) {
        ranges.emplace_back(at, at + mark.size());
      }
      split_at(view.size(), ranges, SplitBehavior::kMergedWithNext, emit);
    });
  }

 private:
  Metaspace metaspace_;
};

// Parts without the delimiter.
class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(std::string delimiter) : delimiter_(std::move(delimiter)) {}
  void apply(Pieces& pieces) const override {
    pieces.split([&](std::string_view view, const auto& emit) {
      size_t last = 0;
      for (size_t at = view.find(delimiter_); at != view.npos; at = view.find(delimiter_, last)) {
        emit(last, at);
        last = at + delimiter_.size();
      }
      emit(last, view.size());
    });
  }

 private:
  std::string delimiter_;
};

// Parts of so many characters.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void apply(Pieces& pieces) const override {
    pieces.split([&](std::string_view view, const auto& emit) {
      size_t last = 0;
      int64_t count = 0;
      for (size_t i = 0; i < view.size();) {
        next_character(view, i);
        if (++count < length_) continue;
        emit(last, i);
        last = i, count = 0;
      }
      emit(last, view.size());
    });
  }

 private:
  int64_t length_;
};

// Cuts where the script changes; a space belongs to any. What precedes the first script is dropped, as the tokenizers
// library does.
class UnicodeScripts : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.split([](std::string_view view, const auto& emit) {
      constexpr int kNone = -2;
      int last_script = kNone;
      size_t last = view.size();
      for (size_t i = 0; i < view.size();) {
        const size_t begin = i;
        const int script = script_of(next_character(view, i));
        if (script == kAnyScript) continue;
        if (script != last_script) {
          if (last_script != kNone) emit(last, begin);
          last = begin;
        }
        last_script = script;
      }
      emit(last, view.size());
    });
  }
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void apply(Pieces& pieces) const override {
    const size_t size = pieces.text.size();
    for (const auto& part : parts_) part->apply(pieces), check_text_growth(size, pieces.text.size());
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, where, depth);
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(is_space, SplitBehavior::kRemoved);
  if (type == "Punctuation") {
    const SplitBehavior behavior = split_behavior(string_field(json, "behavior", where, "Isolated"), where);
    return std::make_unique<CharacterSplit>(is_punctuation, behavior);
  }
  if (type == "Digits") {
    const bool individual = bool_field(json, "individual_digits", where, false);
    return std::make_unique<CharacterSplit>(is_numeric,
                                            individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "CharDelimiterSplit")
    return std::make_unique<CharDelimiterSplit>(nonempty_field(json, "delimiter", where));
  if (type == "FixedLength") {
    const int64_t length = integer_field(json, "length", where, 5);
    require(length > 0, "{}.length: expected at least 1, found {}", where, length);
    return std::make_unique<FixedLength>(length);
  }
  if (type == "UnicodeScripts") return std::make_unique<UnicodeScripts>();
  if (type == "Split") return std::make_unique<Split>(json, where);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(json, where);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(json, where);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PreTokenizer>> parts;
    for (const Json& part : array_field(json, "pretokenizers", where)) {
      if (auto made = make_pre_tokenizer(part, where + ".pretokenizers", depth + 1)) parts.push_back(std::move(made));
    }
    return std::make_unique<PreTokenizerSequence>(std::move(parts));
  }
  fail(
      "{}: the pre-tokenizer {} is not known; known are BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation, "
      "Digits, CharDelimiterSplit, FixedLength, UnicodeScripts, Split, ByteLevel, Metaspace and Sequence",
      where, quoted(type));
}

}  // namespace transom::text
