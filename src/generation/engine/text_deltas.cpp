// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/text_deltas.h"

#include <algorithm>

#include "base/error.h"

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

}  // namespace

TextDeltas::TextDeltas(const Tokenizer* tokenizer, const TokenIds& prompt, std::vector<std::string> stop_strings)
    : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)) {
  for (const std::string& stop : stop_strings_)
    if (stop.empty()) fail("stop_strings: expected texts of at least one character, found an empty one");
  if (!tokenizer_) {
    if (!stop_strings_.empty()) fail("stop_strings: the tokenizer is needed to find them");
    return;
  }
  window_.assign(prompt.end() - static_cast<ptrdiff_t>(std::min(kContext, prompt.size())), prompt.end());
  known_ = window_.size();
  given_ = tokenizer_->decode(window_, true, false);
  given_.resize(whole_characters(given_));
}

// What the window says behind what was given. A token may change how the bytes before it are decoded (of a run of
// bytes that is no UTF-8 each becomes U+FFFD); then the last tokens are decoded without those before.
std::string TextDeltas::rest_of_window(const TokenIds& last, bool* changed) const {
  const std::string text = tokenizer_->decode(window_, true, false);
  *changed = !text.starts_with(given_);
  return *changed ? tokenizer_->decode(last, true, false) : text.substr(given_.size());
}

void TextDeltas::settle(bool all) {
  const TokenIds last(window_.begin() + static_cast<ptrdiff_t>(known_), window_.end());
  bool changed = false;
  std::string rest = rest_of_window(last, &changed);
  const size_t size = rest.size(), whole = whole_characters(rest);
  const size_t settled = all || last.size() > kMostUndecided ? size : whole;
  if (changed && settled < size) return;  // the next tokens may turn it back
  rest.resize(settled);
  pending_ += rest;
  given_ += rest;
  if (settled < size) return;
  // From here on the text is that of the tokens since the last time that it was whole, decoded behind those.
  std::string own = tokenizer_->decode(last, true, false);
  known_ = window_.size();
  if (own.empty() && known_ < kMostContext) return;  // special tokens say nothing about what follows
  window_ = last;
  known_ = window_.size();
  given_ = std::move(own);
}

bool TextDeltas::add(int64_t token) {
  if (!tokenizer_ || ended_) return false;
  window_.push_back(token);
  settle(false);
  size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_)
    if (const size_t place = pending_.find(stop); place < first) first = place, stop_ = stop;
  if (!stop_) return false;
  rest_ = pending_.substr(first);
  pending_.resize(first);
  ended_ = true;
  return true;
}

// The longest end of the text that a stop string begins with.
size_t TextDeltas::held_back() const {
  size_t longest = 0;
  for (const std::string& stop : stop_strings_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n)
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
  return longest;
}

std::string TextDeltas::take() {
  const size_t out = pending_.size() - (ended_ ? 0 : held_back());
  std::string text = pending_.substr(0, out);
  pending_.erase(0, out);
  return text;
}

void TextDeltas::finish() {
  if (tokenizer_ && !ended_) settle(true);
  ended_ = true;
}

void TextDeltas::finish_with(int64_t token) {
  finish();
  if (!tokenizer_) return;
  window_.push_back(token);
  bool changed = false;
  rest_ = rest_of_window({token}, &changed);
}

}  // namespace transom
