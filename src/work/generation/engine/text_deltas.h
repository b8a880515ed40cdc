// SPDX-License-Identifier: Apache-2.0
// The text of a sequence as it goes out: what goes out never changes later, and holds no part of a stop string.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "work/generation/incremental_decoder.h"

namespace transom {

// Stop strings are found in the text that is shown, and in the text with its special tokens, of which one may be, or
// hold, a whole special token that is not shown.
class TextDeltas {
 public:
  struct Rules {
    std::vector<std::string> stop_strings;
    int64_t stop_after = 0;  // the first tokens: no string ends the text that they complete
    bool skip_special_tokens = true;
  };
  struct Delta {
    std::string text;  // what is shown
    std::vector<TextPiece> pieces;
  };

  // Throws for stop strings that cannot be found: empty ones, any without a tokenizer.
  static void check(const Tokenizer* tokenizer, const std::vector<std::string>& stop_strings);
  // Without a tokenizer there is no text. The tokenizer outlives it.
  TextDeltas(const Tokenizer* tokenizer, const TokenIds& prompt, Rules rules);

  // The text goes on with `token`. True if that completes a stop string.
  bool add(int64_t token);
  // What can go out since the last call. Behind add() that returned true, and behind finish(), all of it.
  Delta take();
  // No token follows: what was held back goes out.
  void finish();
  // As finish(), and `token` ends the text: what it would add is rest().
  void finish_with(int64_t token);
  const std::optional<std::string>& stop() const { return stop_; }
  // What the tokens show behind the text: the stop string and the rest of its last token, or the token of
  // finish_with().
  const std::string& rest() const { return rest_; }

 private:
  struct Mark {  // of a special token
    size_t begin, end;
    int64_t token;
  };
  void append(std::vector<TextPiece> pieces);
  bool looks_for_hidden() const { return rules_.skip_special_tokens && !marks_.empty(); }
  bool cuts_a_mark(size_t place) const;
  std::string shown(size_t begin) const;
  size_t place_of_shown(size_t place) const;
  size_t shown_before(size_t place) const;
  size_t find(const std::string& stop, size_t known) const;
  size_t certain() const;
  Rules rules_;
  std::optional<IncrementalDecoder> decoder_;  // none without a tokenizer
  int64_t count_ = 0;                          // tokens
  std::string text_;                           // what has not gone out, special tokens included
  std::vector<Mark> marks_;                    // in text_, in order
  bool ended_ = false;
  std::optional<std::string> stop_;
  std::string rest_;
};

}  // namespace transom
