// SPDX-License-Identifier: Apache-2.0
// Pre-tokenisers cut the text into words.
#include "base/error.h"
#include "base/json.h"
#include "text/components.h"
#include "text/unicode.h"

namespace transom::text {
namespace {

enum class Side { kRemoved, kIsolated };

// Cuts at every character for which `at` holds: the character vanishes, or stands alone.
template <typename At>
void split_characters(AlignedText& text, Side side, At&& at) {
  text.split([&](const Piece& piece, auto&& emit) {
    const std::string_view view = text.view(piece);
    const char *p = view.data(), *end = p + view.size();
    uint32_t begin = piece.begin;
    while (p < end) {
      const uint32_t place = piece.begin + static_cast<uint32_t>(p - view.data());
      if (!at(next_character(p))) continue;
      const uint32_t behind = piece.begin + static_cast<uint32_t>(p - view.data());
      emit(begin, place);
      if (side == Side::kIsolated) emit(place, behind);
      begin = behind;
    }
    emit(begin, piece.end);
  });
}

class BertPreTokenizer : public PreTokenizer {
 public:
  void split(AlignedText& text) const override {
    split_characters(text, Side::kRemoved, is_white_space);
    split_characters(text, Side::kIsolated, is_punctuation);
  }
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void split(AlignedText& text) const override { split_characters(text, Side::kRemoved, is_white_space); }
};

// \w+|[^\w\s]+
class Whitespace : public PreTokenizer {
 public:
  void split(AlignedText& text) const override {
    text.split([&](const Piece& piece, auto&& emit) {
      const std::string_view view = text.view(piece);
      const char *p = view.data(), *end = p + view.size();
      const auto kind = [](char32_t c) { return is_word_character(c) ? 1 : is_white_space(c) ? 0 : 2; };
      uint32_t begin = piece.begin;
      int current = -1;
      while (p < end) {
        const uint32_t place = piece.begin + static_cast<uint32_t>(p - view.data());
        const int next = kind(next_character(p));
        if (next == current) continue;
        if (current > 0) emit(begin, place);
        begin = place;
        current = next;
      }
      if (current > 0) emit(begin, piece.end);
    });
  }
};

class Sequence : public PreTokenizer {
 public:
  Sequence(const Json& json, const std::string& where, int depth) {
    if (!json.contains("pretokenizers") || !json["pretokenizers"].is_array())
      fail("{}: pre_tokenizer Sequence: expected a list of pretokenizers", where);
    for (const Json& part : json["pretokenizers"]) parts_.push_back(parse_pre_tokenizer(part, where, depth + 1));
  }
  void split(AlignedText& text) const override {
    for (const auto& part : parts_)
      if (part) part->split(text);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  if (depth > kMaximumDepth) fail("{}: pre_tokenizers are nested deeper than {} levels", where, kMaximumDepth);
  const std::string type = component_type(json, where);
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplit>();
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "Sequence") return std::make_unique<Sequence>(json, where, depth);
  unknown_component("pre_tokenizer", type, {"BertPreTokenizer", "Sequence", "Whitespace", "WhitespaceSplit"}, where);
}

}  // namespace transom::text
