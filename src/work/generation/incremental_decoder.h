// SPDX-License-Identifier: Apache-2.0
// Tokens to text while they are generated. All that shows text before it is complete goes through here: the engine with
// its stop strings, the interfaces of the server, streamers.
#pragma once

#include <string>
#include <vector>

#include "transom/engine.h"

namespace transom {

// How a token is written may depend on the one before it (a leading space, the rest of a character), so that a few
// tokens are decoded together, the first ones those at the end of the prompt. Special tokens are pieces of their own;
// they end a character that is not whole. All pieces, one behind the other, are what Tokenizer::decode gives; with
// `skip_special_tokens` those that are text are.
class IncrementalDecoder {
 public:
  // The tokenizer outlives it.
  IncrementalDecoder(const Tokenizer& tokenizer, const TokenIds& prompt, bool skip_special_tokens);

  // What is certain now that `token` follows: whole characters that no later token changes.
  std::vector<TextPiece> add(int64_t token);
  // No token follows: what was held back, bytes that are no character as U+FFFD.
  std::vector<TextPiece> finish();
  // Whether tokens have been added whose text is held back.
  bool holds_back() const { return known_ < window_.size(); }

 private:
  bool is_special(int64_t token) const;
  std::string decoded(const TokenIds& tokens) const;
  std::string rest_of_window(const TokenIds& last, bool* changed) const;
  std::string settle(bool all);
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<int64_t> special_;
  TokenIds window_;    // of tokens that are decoded together
  size_t known_ = 0;   // of them, those whose text is whole
  std::string given_;  // of the window's text, what has been given
};

}  // namespace transom
