// SPDX-License-Identifier: Apache-2.0
// Text while it is written. A token alone may be half a character, and later tokens may change how earlier ones are
// written: what stands before the last space is settled.
#include "transom/generation.h"

namespace transom {

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
    pending_.clear();
    given_ = 0;
    return;
  }
  const size_t settled = text.rfind(' ') == std::string::npos ? 0 : text.rfind(' ') + 1;
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
