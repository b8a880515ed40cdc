// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/written_answer.h"

#include <algorithm>
#include <utility>

namespace transom::serve {

WrittenAnswer::WrittenAnswer(const ToolChoice& tools, CallIds ids, bool skip_special_tokens)
    : what_(tools.what), parallel_(tools.parallel), ids_(ids), shaped_(tools) {
  if (what_ == ToolChoice::kAuto) parser_.emplace(std::make_shared<const KnownTools>(tools.tools), skip_special_tokens);
  take_calls(shaped_.calls());
}

void WrittenAnswer::add(const EngineEvent& event, const std::string& end) {
  if (what_ == ToolChoice::kNone) {
    content_ += event.text + end;
  } else if (parser_) {
    for (const TextPiece& piece : event.pieces) parser_->add(piece.text, piece.special.has_value());
    if (!end.empty()) parser_->add(end, false);
    take_calls(parser_->calls());
  } else {
    shaped_.add(event.text + end);
    take_calls(shaped_.calls());
  }
}

void WrittenAnswer::finish() {
  if (!parser_) return;
  parser_->finish();
  take_calls(parser_->calls());
}

std::string WrittenAnswer::take_content() { return parser_ ? parser_->take_content() : std::exchange(content_, {}); }

// With parallel_tool_calls false the first one alone.
void WrittenAnswer::take_calls(const std::vector<ToolCall>& calls) {
  for (size_t i = 0; i < calls.size() && (parallel_ || i == 0); ++i) {
    if (i == calls_.size()) {
      ToolCall call = calls[i];
      call.id = ids_.make(call.name, static_cast<int64_t>(i), call.id);
      const auto is_same = [&](const ToolCall& other) { return other.id == call.id; };
      if (std::any_of(calls_.begin(), calls_.end(), is_same))
        call.id = ids_.make(call.name, static_cast<int64_t>(i), "");
      calls_.push_back(std::move(call));
    } else if (calls_[i].arguments.size() < calls[i].arguments.size()) {
      calls_[i].arguments = calls[i].arguments;
    }
  }
}

}  // namespace transom::serve
