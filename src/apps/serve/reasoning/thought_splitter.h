// SPDX-License-Identifier: Apache-2.0
// What a model thinks and what it answers, told apart while they are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/reasoning/reasoning_form.h"
#include "transom/engine.h"

namespace transom::serve {

// Thoughts and answer depend on the whole text alone, not on the pieces in which it comes. Blanks around the thoughts
// belong to neither. A text that does not begin with thoughts has none.
class ThoughtSplitter {
 public:
  explicit ThoughtSplitter(ThoughtStart start)
      : form_(*start.form), state_(start.begun ? State::kThoughts : State::kBegin) {}

  void add(const TextPiece& piece);
  // Nothing follows.
  void finish();
  // What is certain since the last call.
  std::vector<TextPiece> take_answer();
  std::string take_thoughts();
  // Whether the text has ended, or is, within its thoughts.
  bool in_thoughts() const { return state_ == State::kThoughts; }

 private:
  enum class State { kBegin, kThoughts, kBehind, kAnswer };
  void read(bool ended);
  bool read_begin(bool ended);
  bool read_thoughts(bool ended);
  bool read_behind(bool ended);
  void drop(size_t bytes);
  void release();
  void think(std::string text);

  const ReasoningForm& form_;
  State state_;
  std::vector<TextPiece> held_;  // pieces that are not decided, and their text
  std::string text_;
  std::vector<TextPiece> answer_;
  std::string thoughts_, gap_;  // blanks, which are thoughts only between others
  bool thought_any_ = false;
};

}  // namespace transom::serve
