// SPDX-License-Identifier: Apache-2.0
// Text while it is generated, as Transformers' TextStreamer prints it. A token alone may be half a character, and later
// tokens may change how earlier ones are written: text up to the last space is final, and so is a CJK character.
#include "inputs/text/unicode/unicode.h"
#include "transom/generation.h"

namespace transom {
namespace {

bool ends_with_chinese(const std::string& text) {
  if (text.empty()) return false;
  size_t place = text::previous_boundary(text, text.size());
  return text::is_chinese(text::next_character(text, place));
}

// The last token that says something: what follows is decoded behind it. At the beginning of a text tokenizers of the
// LLaMA family leave a space out, of which each line would have one too few.
TokenIds context_of(const Tokenizer& tokenizer, const TokenIds& tokens, bool skip_special_tokens) {
  TokenIds last;
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    last.insert(last.begin(), *token);
    if (!tokenizer.decode(last, skip_special_tokens).empty()) break;
  }
  return last;
}

}  // namespace

TextStreamer::TextStreamer(Tokenizer tokenizer, std::function<void(std::string_view)> sink, bool skip_prompt,
                           bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      sink_(std::move(sink)),
      skip_prompt_(skip_prompt),
      skip_special_tokens_(skip_special_tokens) {}

void TextStreamer::put(const TokenIds& ids) {
  const bool skipped = at_prompt_ && skip_prompt_;
  at_prompt_ = false;
  if (skipped) return;
  pending_.insert(pending_.end(), ids.begin(), ids.end());
  const std::string text = tokenizer_.decode(pending_, skip_special_tokens_);
  if (text.ends_with('\n')) {
    if (text.size() > given_) sink_(std::string_view(text).substr(given_));
    pending_ = context_of(tokenizer_, pending_, skip_special_tokens_);
    given_ = tokenizer_.decode(pending_, skip_special_tokens_).size();
    return;
  }
  const size_t space = text.rfind(' ');
  const size_t settled = ends_with_chinese(text) ? text.size() : space == std::string::npos ? 0 : space + 1;
  if (settled > given_) {
    sink_(std::string_view(text).substr(given_, settled - given_));
    given_ = settled;
  }
}

void TextStreamer::end() {
  const std::string text = tokenizer_.decode(pending_, skip_special_tokens_);
  if (text.size() > given_) sink_(std::string_view(text).substr(given_));
  pending_.clear();
  given_ = 0;
  at_prompt_ = true;
}

}  // namespace transom
