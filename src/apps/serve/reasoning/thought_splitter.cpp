// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/reasoning/thought_splitter.h"

#include <algorithm>
#include <utility>

namespace transom::serve {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

enum class Match { kNo, kYes, kMayBe };
// Whether the text begins with the mark, or might with what follows.
Match match_at_front(std::string_view text, std::string_view mark, bool ended) {
  if (mark.empty()) return Match::kNo;
  if (text.starts_with(mark)) return Match::kYes;
  return !ended && mark.starts_with(text) ? Match::kMayBe : Match::kNo;
}

// Bytes at the end of the text with which the mark may begin.
size_t begun_mark(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (mark.starts_with(text.substr(text.size() - size))) return size;
  return 0;
}

}  // namespace

void ThoughtSplitter::add(const TextPiece& piece) {
  if (state_ == State::kAnswer) {
    answer_.push_back(piece);
    return;
  }
  // Tokens that no mark has and that are not shown are no thoughts.
  if (state_ == State::kThoughts && piece.special && form_.close.find(piece.text) == form_.close.npos) return;
  held_.push_back(piece);
  text_ += piece.text;
  read(false);
}

void ThoughtSplitter::finish() { read(true); }

void ThoughtSplitter::read(bool ended) {
  bool goes_on = true;
  while (goes_on) {
    switch (state_) {
      case State::kBegin:
        goes_on = read_begin(ended);
        break;
      case State::kThoughts:
        goes_on = read_thoughts(ended);
        break;
      case State::kBehind:
        goes_on = read_behind(ended);
        break;
      case State::kAnswer:
        release();
        return;
    }
  }
}

// Each returns whether the next state is known.
bool ThoughtSplitter::read_begin(bool ended) {
  const size_t first = std::min(text_.find_first_not_of(kBlank), text_.size());
  const std::string_view front = std::string_view(text_).substr(first);
  if (front.empty() && !ended) return false;
  const Match thoughts = match_at_front(front, form_.open, ended), answer = match_at_front(front, form_.answer, ended);
  if (thoughts == Match::kYes) {
    drop(first + form_.open.size());
    state_ = State::kThoughts;
  } else if (answer == Match::kYes) {
    drop(first + form_.answer.size());
    state_ = State::kAnswer;
  } else if (thoughts == Match::kMayBe || answer == Match::kMayBe) {
    return false;
  } else {
    state_ = State::kAnswer;
  }
  return true;
}

bool ThoughtSplitter::read_thoughts(bool ended) {
  const size_t end = text_.find(form_.close);
  if (end != text_.npos) {
    think(text_.substr(0, end));
    gap_.clear();
    drop(end + form_.close.size());
    state_ = State::kBehind;
    return true;
  }
  const size_t certain = text_.size() - (ended ? 0 : begun_mark(text_, form_.close));
  think(text_.substr(0, certain));
  drop(certain);
  return false;
}

// Further thoughts, the mark of the answer, or the answer.
bool ThoughtSplitter::read_behind(bool ended) {
  const size_t first = std::min(text_.find_first_not_of(kBlank), text_.size());
  drop(first);
  if (text_.empty()) return false;
  const Match answer = match_at_front(text_, form_.answer_behind, ended);
  if (answer == Match::kMayBe) return false;
  if (answer == Match::kYes) {
    drop(form_.answer_behind.size());
    state_ = State::kAnswer;
    return true;
  }
  // "<|start|>assistant" and the opening mark again.
  const size_t head = form_.answer_behind.size() - form_.answer.size();
  if (head > 0) {
    const std::string again = std::string(form_.answer_behind.substr(0, head)) + std::string(form_.open);
    const Match thoughts = match_at_front(text_, again, ended);
    if (thoughts == Match::kMayBe) return false;
    if (thoughts == Match::kYes) {
      drop(again.size());
      if (thought_any_) gap_ = "\n\n";
      state_ = State::kThoughts;
      return true;
    }
  }
  state_ = State::kAnswer;
  return true;
}

void ThoughtSplitter::think(std::string text) {
  const size_t last = text.find_last_not_of(kBlank);
  if (last == text.npos) {
    if (thought_any_) gap_ += text;
    return;
  }
  if (!thought_any_) text.erase(0, text.find_first_not_of(kBlank));
  const size_t kept = text.find_last_not_of(kBlank) + 1;
  thoughts_ += std::exchange(gap_, text.substr(kept)) + text.substr(0, kept);
  thought_any_ = true;
}

// What is held loses so many bytes at its front.
void ThoughtSplitter::drop(size_t bytes) {
  text_.erase(0, bytes);
  size_t whole = 0;
  while (whole < held_.size() && held_[whole].text.size() <= bytes) bytes -= held_[whole++].text.size();
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(whole));
  if (bytes > 0 && !held_.empty()) held_[0] = {held_[0].text.substr(bytes), std::nullopt};
}

void ThoughtSplitter::release() {
  for (TextPiece& piece : held_) answer_.push_back(std::move(piece));
  held_.clear();
  text_.clear();
}

std::vector<TextPiece> ThoughtSplitter::take_answer() { return std::exchange(answer_, {}); }
std::string ThoughtSplitter::take_thoughts() { return std::exchange(thoughts_, {}); }

}  // namespace transom::serve
