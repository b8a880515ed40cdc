// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/text_deltas.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

// How many bytes at the end of the text a stop string begins with, or less than a whole one.
size_t begun(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(stop.size() - 1, text.size()); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

void TextDeltas::check(const Tokenizer* tokenizer, const std::vector<std::string>& stop_strings) {
  for (const std::string& stop : stop_strings)
    if (stop.empty()) fail("stop_strings: expected texts of at least one character, found an empty one");
  if (!tokenizer && !stop_strings.empty()) fail("stop_strings: the tokenizer is needed to find them");
}

TextDeltas::TextDeltas(const Tokenizer* tokenizer, const TokenIds& prompt, Rules rules) : rules_(std::move(rules)) {
  check(tokenizer, rules_.stop_strings);
  if (tokenizer) decoder_.emplace(*tokenizer, prompt, rules_.skip_special_tokens);
}

void TextDeltas::append(std::vector<TextPiece> pieces) {
  for (TextPiece& piece : pieces) {
    if (piece.special) marks_.push_back({text_.size(), text_.size() + piece.text.size(), *piece.special});
    text_ += piece.text;
  }
}

bool TextDeltas::cuts_a_mark(size_t place) const {
  return std::any_of(marks_.begin(), marks_.end(),
                     [&](const Mark& mark) { return mark.begin < place && place < mark.end; });
}

// What is shown of the text from `begin` on, which cuts no mark.
std::string TextDeltas::shown(size_t begin) const {
  std::string text;
  size_t at = begin;
  for (const Mark& mark : marks_) {
    if (!rules_.skip_special_tokens || mark.begin < begin) continue;
    text += text_.substr(at, mark.begin - at);
    at = mark.end;
  }
  return text + text_.substr(at);
}

// Where in the text the byte of that place of shown(0) stands.
size_t TextDeltas::place_of_shown(size_t place) const {
  for (const Mark& mark : marks_)
    if (mark.begin <= place) place += mark.end - mark.begin;
  return place;
}

size_t TextDeltas::shown_before(size_t place) const {
  size_t hidden = 0;
  for (const Mark& mark : marks_)
    if (mark.end <= place) hidden += mark.end - mark.begin;
  return place - hidden;
}

// Where the stop string stands that is complete with what stands behind the first `known` bytes; npos: nowhere.
size_t TextDeltas::find(const std::string& stop, size_t known) const {
  const auto from = [&](size_t bytes) { return bytes >= stop.size() ? bytes - stop.size() + 1 : 0; };
  size_t place = text_.find(stop, from(known));
  if (!looks_for_hidden()) return place;
  while (place != text_.npos && (cuts_a_mark(place) || cuts_a_mark(place + stop.size())))
    place = text_.find(stop, place + 1);
  const size_t in_shown = shown(0).find(stop, from(shown_before(known)));
  return in_shown == text_.npos ? place : std::min(place, place_of_shown(in_shown));
}

bool TextDeltas::add(int64_t token) {
  if (!decoder_ || ended_) return false;
  const size_t known = text_.size();
  append(decoder_->add(token));
  if (++count_ <= rules_.stop_after || text_.size() == known) return false;
  size_t first = text_.npos;
  for (const std::string& stop : rules_.stop_strings)
    if (const size_t place = find(stop, known); place < first) first = place, stop_ = stop;
  if (!stop_) return false;
  rest_ = shown(first);
  text_.resize(first);
  std::erase_if(marks_, [&](const Mark& mark) { return mark.end > first; });
  ended_ = true;
  return true;
}

// How many bytes can go out: not what a stop string begins with, and no part of a special token.
size_t TextDeltas::certain() const {
  if (ended_ || rules_.stop_strings.empty()) return text_.size();
  size_t out = text_.size();
  const std::string seen = looks_for_hidden() ? shown(0) : std::string();
  for (const std::string& stop : rules_.stop_strings) {
    out = std::min(out, text_.size() - begun(text_, stop));
    if (const size_t n = begun(seen, stop); n > 0) out = std::min(out, place_of_shown(seen.size() - n));
  }
  for (const Mark& mark : marks_)
    if (mark.begin < out && out < mark.end) out = mark.begin;
  return out;
}

TextDeltas::Delta TextDeltas::take() {
  const size_t out = certain();
  Delta delta;
  size_t at = 0;
  const auto add_text = [&](size_t end) {
    if (end == at) return;
    delta.pieces.push_back({text_.substr(at, end - at), std::nullopt});
    delta.text += delta.pieces.back().text;
    at = end;
  };
  std::vector<Mark> left;
  for (const Mark& mark : marks_) {
    if (mark.end > out) {
      left.push_back({mark.begin - out, mark.end - out, mark.token});
      continue;
    }
    add_text(mark.begin);
    delta.pieces.push_back({text_.substr(mark.begin, mark.end - mark.begin), mark.token});
    if (!rules_.skip_special_tokens) delta.text += delta.pieces.back().text;
    at = mark.end;
  }
  add_text(out);
  text_.erase(0, out);
  marks_ = std::move(left);
  return delta;
}

void TextDeltas::finish() {
  if (decoder_ && !ended_) append(decoder_->finish());
  ended_ = true;
}

void TextDeltas::finish_with(int64_t token) {
  finish();
  if (!decoder_) return;
  for (std::vector<TextPiece> pieces : {decoder_->add(token), decoder_->finish()})
    for (const TextPiece& piece : pieces)
      if (!piece.special || !rules_.skip_special_tokens) rest_ += piece.text;
}

}  // namespace transom
