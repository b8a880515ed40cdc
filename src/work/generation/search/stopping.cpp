// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "work/generation/search/search.h"

namespace transom {

Stopping::Stopping(const GenerationConfig& config, int64_t max_length, const Tokenizer* tokenizer,
                   int64_t strings_after)
    : ends_(config.eos_token_id),
      strings_(config.stop_strings),
      max_length_(max_length),
      strings_after_(strings_after),
      tokenizer_(tokenizer) {
  if (!strings_.empty() && !tokenizer) fail("stop_strings: the tokenizer is needed to find them");
  for (const std::string& text : strings_) longest_ = std::max(longest_, text.size());
  if (config.max_time)
    deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(*config.max_time));
}

// Whether the last token completes one of the strings, perhaps with more behind it.
bool Stopping::completes_stop_string(const TokenIds& tokens) const {
  // Every token but the special ones stands for a byte at least.
  const size_t count = std::min(tokens.size(), longest_ + 16);
  TokenIds tail(tokens.end() - static_cast<ptrdiff_t>(count), tokens.end());
  const std::string text = tokenizer_->decode(tail, false, false);
  tail.pop_back();
  const std::string before = tokenizer_->decode(tail, false, false);
  // Half a character is written in another way once its other half is there.
  const auto same =
      static_cast<size_t>(std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin());
  return std::any_of(strings_.begin(), strings_.end(), [&](const std::string& string) {
    return text.find(string, same >= string.size() ? same - string.size() + 1 : 0) != text.npos;
  });
}

bool Stopping::ends(const TokenIds& tokens) const {
  if (static_cast<int64_t>(tokens.size()) >= max_length_) return true;
  if (std::find(ends_.begin(), ends_.end(), tokens.back()) != ends_.end()) return true;
  if (deadline_ && std::chrono::steady_clock::now() >= *deadline_) return true;
  if (strings_.empty() || static_cast<int64_t>(tokens.size()) <= strings_after_) return false;
  return completes_stop_string(tokens);
}

}  // namespace transom
