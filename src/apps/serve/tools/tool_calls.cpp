// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/tool_calls.h"

#include <algorithm>

namespace transom::serve {
namespace {

constexpr std::string_view kBlanks = " \t\r\n", kThink = "<think>", kThinkEnd = "</think>";
// Bytes that may be looked at for each byte of the text, and besides. A text that is parsed without a second look takes
// about one; beyond the first limit parsing waits for the text to double, beyond the second nothing is a call.
constexpr size_t kEagerWork = 32, kMostWork = 256, kFreeWork = 1 << 16;
constexpr size_t kLongCall = 1 << 10;  // which nothing but the end of something decides

// The mark at the front of the text, or whether one may begin there: the rest of the text is too short to tell.
enum class Seen { kNo, kMark, kBeginning };
Seen sees_mark(std::string_view text, std::string_view mark, bool ended) {
  if (text.starts_with(mark)) return Seen::kMark;
  return !ended && text.size() < mark.size() && mark.starts_with(text) ? Seen::kBeginning : Seen::kNo;
}

}  // namespace

ToolCallParser::ToolCallParser(std::shared_ptr<const KnownTools> tools, bool skip_special_tokens)
    : tools_(std::move(tools)), skip_special_tokens_(skip_special_tokens) {}

void ToolCallParser::add(std::string_view text, bool special) {
  if (special) special_.emplace_back(text_.size(), text_.size() + text.size());
  text_ += text;
  read();
}

void ToolCallParser::finish() {
  ended_ = true;
  read();
  emit(text_.size());
  if (calls_.empty() || gap_.find_first_not_of(kBlanks) != gap_.npos) content_ += gap_;
  gap_.clear();
}

void ToolCallParser::read() {
  if (!begun_ && !read_beginning()) return;
  if (thinks_ && !read_thinking()) return;
  while (true) {
    const Mark mark = next_mark();
    emit(mark.place);
    if (mark.length == 0 || !take_mark(mark)) return;
  }
}

// Whether the text begins with thinking, or with calls without marks. False: what follows decides.
bool ToolCallParser::read_beginning() {
  const size_t first = text_.find_first_not_of(kBlanks);
  if (first == text_.npos) return ended_;
  const std::string_view front = std::string_view(text_).substr(first);
  const Seen think = sees_mark(front, kThink, ended_);
  if (think == Seen::kBeginning) return false;
  if (think == Seen::kMark) {
    thinks_ = true;
    think_ = first + kThink.size();
  } else if (front[0] == '{' || (front[0] == '[' && !is_special(first, 1))) {
    const Seen mark = sees_mark(front, "[TOOL_CALLS]", ended_);
    if (mark == Seen::kBeginning) return false;
    if (mark == Seen::kNo) {
      const FoundCalls found = look(first, nullptr);
      if (found.state == FoundCalls::kMore) return false;
      if (found.state == FoundCalls::kCalls) take_calls(first, found);
    }
  }
  begun_ = true;
  return true;
}

// Of a text that ends without the end of its thinking, what stands in it may be calls.
bool ToolCallParser::read_thinking() {
  const size_t end = text_.find(kThinkEnd, think_);
  if (end != text_.npos) {
    emit(end + kThinkEnd.size());
  } else if (!ended_) {
    think_ = std::max(think_, text_.size() - std::min(text_.size(), kThinkEnd.size() - 1));
    emit(next_mark().place);
    return false;
  }
  thinks_ = false;
  return true;
}

bool ToolCallParser::is_special(size_t begin, size_t length) const {
  const auto found = std::upper_bound(special_.begin(), special_.end(), std::pair(begin, text_.npos));
  return found != special_.begin() && std::prev(found)->first <= begin && std::prev(found)->second >= begin + length;
}

// The first mark that is not done, or what may be the beginning of one; at the end of the text with length 0: none.
ToolCallParser::Mark ToolCallParser::next_mark() const {
  const std::string_view text = text_;
  for (size_t place = done_; (place = text.find_first_of("<[", place)) != text.npos; ++place) {
    const std::string_view front = text.substr(place);
    bool begins = false;
    const auto is = [&](std::string_view mark) {
      const Seen seen = sees_mark(front, mark, ended_);
      begins = begins || seen == Seen::kBeginning;
      return seen == Seen::kMark;
    };
    for (const CallForm& form : call_forms()) {
      // Words of harmony are marks as special tokens alone.
      if (form.kind == CallForm::kHarmony && !is_special(place, 1)) continue;
      if (is(form.open)) return {place, form.open.size(), &form, Mark::kForm};
    }
    for (const std::string_view frame : frames_before_calls())
      if (is(frame)) return {place, frame.size(), nullptr, Mark::kFrameBefore};
    for (const std::string_view frame : frames_behind_calls())
      if (is(frame)) return {place, frame.size(), nullptr, Mark::kFrameBehind};
    if (begins) return {place, 0, nullptr, Mark::kBeginning};
  }
  return {text.size(), 0, nullptr, Mark::kBeginning};
}

// False: what follows decides.
bool ToolCallParser::take_mark(const Mark& mark) {
  const size_t end = mark.place + mark.length;
  if (mark.kind == Mark::kFrameBefore) {
    if (!(skip_special_tokens_ && is_special(mark.place, mark.length))) gap_ += text_.substr(mark.place, mark.length);
    done_ = end;
    return true;
  }
  if (mark.kind == Mark::kFrameBehind) {
    if (behind_call_) done_ = end;
    else emit(end);
    return true;
  }
  const FoundCalls found = look(mark.place, mark.form);
  if (found.state == FoundCalls::kMore) return false;
  if (found.state == FoundCalls::kCalls) return take_calls(mark.place, found);
  if (found.state == FoundCalls::kHeader && skip_special_tokens_) {
    done_ = mark.place + found.length;
    if (any_content_) gap_ = "\n\n";  // between two messages
    return true;
  }
  emit(end);
  return true;
}

bool ToolCallParser::take_calls(size_t place, const FoundCalls& found) {
  for (const FoundCalls::Part& part : found.parts) {
    if (part.call) add_call(*part.call);
    else add_content(place + part.begin, place + part.end);
  }
  done_ = place + found.length;
  return true;
}

FoundCalls ToolCallParser::look(size_t place, const CallForm* form) {
  const size_t size = text_.size();
  FoundCalls none;
  if (!ended_ && work_ > kEagerWork * size + kFreeWork && size < 2 * tried_) {
    none.state = FoundCalls::kMore;
    return none;
  }
  if (!ended_ && size > place + kLongCall && text_.find_first_of("}])>", tried_) == text_.npos) {
    none.state = FoundCalls::kMore;
    return none;
  }
  if (work_ > kMostWork * size + kFreeWork) return none;
  const std::string_view text = std::string_view(text_).substr(place);
  FoundCalls found = form ? calls_at(text, *form, *tools_, ended_) : bare_calls_at(text, *tools_, ended_);
  work_ += found.visited;
  tried_ = size;
  return found;
}

// What is not done before `end` is content.
void ToolCallParser::emit(size_t end) {
  if (end <= done_) return;
  add_content(done_, end);
  done_ = end;
}

void ToolCallParser::add_content(size_t begin, size_t end) {
  std::string text;
  if (skip_special_tokens_)
    for (auto each = std::lower_bound(special_.begin(), special_.end(), std::pair(begin, size_t{0}));
         each != special_.end() && each->second <= end; ++each) {
      text += text_.substr(begin, each->first - begin);
      begin = each->second;
    }
  add_content(text + text_.substr(begin, end - begin));
}

void ToolCallParser::add_content(std::string text) {
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == text.npos) return void(gap_ += text);
  if (!calls_.empty() && !any_content_) {
    gap_.clear();
    text.erase(0, text.find_first_not_of(kBlanks));
  } else if (behind_call_ && gap_.empty() && kBlanks.find(text[0]) == kBlanks.npos) {
    gap_ = dropped_;
  }
  const size_t kept = text.find_last_not_of(kBlanks) + 1;
  content_ += gap_ + text.substr(0, kept);
  gap_ = text.substr(kept);
  any_content_ = true;
  behind_call_ = false;
}

void ToolCallParser::add_call(ToolCall call) {
  if (!behind_call_) dropped_ = gap_.substr(0, gap_.find_first_not_of(kBlanks));
  gap_.clear();
  behind_call_ = true;
  call.content_before = taken_ + content_.size();
  calls_.push_back(std::move(call));
}

ParsedAnswer parse_tool_calls(std::string_view text, const Json& tools) {
  ToolCallParser parser(std::make_shared<const KnownTools>(tools), true);
  parser.add(text, false);
  parser.finish();
  return {parser.take_content(), parser.calls()};
}

}  // namespace transom::serve
