// SPDX-License-Identifier: Apache-2.0
#include "work/generation/incremental_decoder.h"

#include <algorithm>
#include <utility>

namespace transom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, as which half a character is decoded
constexpr size_t kContext = 5;                             // tokens of the prompt that the first ones are decoded with
constexpr size_t kMostContext = 64;
constexpr size_t kMostUndecided = 16;  // tokens: more than the bytes of a character never wait for another

// Without what may be the beginning of a character: at most three bytes, each of which may be written as U+FFFD.
size_t whole_characters(std::string_view text) {
  for (int i = 0; i < 3 && text.ends_with(kReplacement); ++i) text.remove_suffix(kReplacement.size());
  return text.size();
}

void add_text(std::vector<TextPiece>& pieces, std::string text) {
  if (!text.empty()) pieces.push_back({std::move(text), std::nullopt});
}

}  // namespace

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, const TokenIds& prompt, bool skip_special_tokens)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens), special_(tokenizer.all_special_ids()) {
  window_.assign(prompt.end() - static_cast<ptrdiff_t>(std::min(kContext, prompt.size())), prompt.end());
  known_ = window_.size();
  given_ = decoded(window_);
  given_.resize(whole_characters(given_));
}

// A special token whose text the normaliser changes is decoded all the same.
bool IncrementalDecoder::is_special(int64_t token) const {
  return std::binary_search(special_.begin(), special_.end(), token) &&
         tokenizer_->decode({token}, true, false).empty();
}

std::string IncrementalDecoder::decoded(const TokenIds& tokens) const {
  return tokenizer_->decode(tokens, skip_special_tokens_, false);
}

// What the window says behind what was given. A token may change how the bytes before it are decoded (of a run of
// bytes that is no UTF-8 each becomes U+FFFD); then the last tokens are decoded without those before.
std::string IncrementalDecoder::rest_of_window(const TokenIds& last, bool* changed) const {
  const std::string text = decoded(window_);
  *changed = !text.starts_with(given_);
  return *changed ? decoded(last) : text.substr(given_.size());
}

std::string IncrementalDecoder::settle(bool all) {
  const TokenIds last(window_.begin() + static_cast<ptrdiff_t>(known_), window_.end());
  bool changed = false;
  std::string rest = rest_of_window(last, &changed);
  const size_t size = rest.size(), whole = whole_characters(rest);
  const size_t settled = all || last.size() > kMostUndecided ? size : whole;
  if (changed && settled < size) return "";  // the next tokens may turn it back
  rest.resize(settled);
  given_ += rest;
  if (settled < size) return rest;
  // From here on the text is that of the tokens since the last time that it was whole, decoded behind those.
  std::string own = decoded(last);
  known_ = window_.size();
  if (own.empty() && known_ < kMostContext) return rest;  // special tokens say nothing about what follows
  window_ = last;
  known_ = window_.size();
  given_ = std::move(own);
  return rest;
}

std::vector<TextPiece> IncrementalDecoder::add(int64_t token) {
  std::vector<TextPiece> pieces;
  if (!is_special(token)) {
    window_.push_back(token);
    add_text(pieces, settle(false));
    return pieces;
  }
  pieces = finish();
  window_.push_back(token);
  std::string text = settle(true), name = tokenizer_->id_to_token(token).value_or("");
  if (!skip_special_tokens_ && !text.ends_with(name)) name = std::exchange(text, "");
  if (text.ends_with(name)) text.resize(text.size() - name.size());  // a space before it, or the rest of the prompt
  add_text(pieces, std::move(text));
  pieces.push_back({std::move(name), token});
  return pieces;
}

std::vector<TextPiece> IncrementalDecoder::finish() {
  std::vector<TextPiece> pieces;
  if (holds_back()) add_text(pieces, settle(true));
  return pieces;
}

}  // namespace transom
