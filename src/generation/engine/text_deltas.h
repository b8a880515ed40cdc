// SPDX-License-Identifier: Apache-2.0
// Text while it is generated: what goes out never changes later, and holds no part of a stop string.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/generation.h"

namespace transom {

// How a token is written may depend on the one before it (a leading space, the rest of a character), so that a few
// tokens are decoded together, the first ones those at the end of the prompt. Special tokens are left out.
class TextDeltas {
 public:
  // Without a tokenizer there is no text. The tokenizer outlives it.
  TextDeltas(const Tokenizer* tokenizer, const TokenIds& prompt, std::vector<std::string> stop_strings);

  // The text goes on with `token`. True if that completes a stop string.
  bool add(int64_t token);
  // The text that can go out since the last call. Behind add() that returned true, and behind finish(), all of it.
  std::string take();
  // No token follows: what was held back goes out.
  void finish();
  // As finish(), and `token` ends the text: what it would add is rest().
  void finish_with(int64_t token);
  const std::optional<std::string>& stop() const { return stop_; }
  // What the tokens say behind the text: the stop string and the rest of its last token, or the token of finish_with().
  const std::string& rest() const { return rest_; }

 private:
  std::string rest_of_window(const TokenIds& last, bool* changed) const;
  void settle(bool all);
  size_t held_back() const;
  const Tokenizer* tokenizer_;
  std::vector<std::string> stop_strings_;
  TokenIds window_;      // of tokens that are decoded together
  size_t known_ = 0;     // of them, those whose text is whole
  std::string given_;    // of the window's text, what is in pending_ or was
  std::string pending_;  // settled characters that have not gone out
  bool ended_ = false;
  std::optional<std::string> stop_;
  std::string rest_;
};

}  // namespace transom
