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
  given_ = whole_characters(tokenizer_->decode(window_, true, false));
}

void TextDeltas::settle(bool all) {
  const std::string text = tokenizer_->decode(window_, true, false);
  const size_t whole = whole_characters(text);
  const size_t settled = all || window_.size() - known_ > kMostUndecided ? text.size() : whole;
  if (settled > given_) {
    pending_ += std::string_view(text).substr(given_, settled - given_);
    given_ = settled;
  }
  if (settled < text.size()) return;
  // From here on the text is that of the tokens since the last time that it was whole, decoded behind those.
  const TokenIds last(window_.begin() + static_cast<ptrdiff_t>(known_), window_.end());
  const size_t size = tokenizer_->decode(last, true, false).size();
  known_ = window_.size();
  if (size == 0 && known_ < kMostContext) return;  // special tokens say nothing about what follows
  window_ = last;
  known_ = window_.size();
  given_ = size;
}

bool TextDeltas::add(int64_t token) {
  if (!tokenizer_ || ended_) return false;
  window_.push_back(token);
  settle(false);
  size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_)
    if (const size_t place = pending_.find(stop); place < first) first = place, stop_ = stop;
  if (!stop_) return false;
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

}  // namespace transom
