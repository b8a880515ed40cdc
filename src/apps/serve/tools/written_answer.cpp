// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/written_answer.h"

#include <algorithm>
#include <utility>

namespace transom::serve {

WrittenAnswer::WrittenAnswer(const ToolChoice& tools, CallIds ids, bool skip_special_tokens, ThoughtStart thoughts)
    : what_(tools.what),
      parallel_(tools.parallel),
      skip_special_tokens_(skip_special_tokens),
      ids_(ids),
      shaped_(tools) {
  if (thoughts.form) splitter_.emplace(thoughts);
  if (what_ == ToolChoice::kAuto) parser_.emplace(std::make_shared<const KnownTools>(tools.tools), skip_special_tokens);
  take_calls(shaped_.calls());
}

void WrittenAnswer::add(const EngineEvent& event, const std::string& end) {
  if (splitter_) {
    for (const TextPiece& piece : event.pieces) splitter_->add(piece);
    if (!end.empty()) splitter_->add({end, std::nullopt});
    read_pieces(splitter_->take_answer());
  } else if (what_ == ToolChoice::kNone) {
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

void WrittenAnswer::read_pieces(const std::vector<TextPiece>& pieces) {
  thoughts_ += splitter_->take_thoughts();
  for (const TextPiece& piece : pieces) {
    if (parser_) parser_->add(piece.text, piece.special.has_value());
    else if (piece.special && skip_special_tokens_) continue;
    else if (what_ == ToolChoice::kNone) content_ += piece.text;
    else shaped_.add(piece.text);
  }
  take_calls(parser_ ? parser_->calls() : shaped_.calls());
}

void WrittenAnswer::finish() {
  if (splitter_) {
    splitter_->finish();
    read_pieces(splitter_->take_answer());
  }
  if (!parser_) return;
  // Who never ends thinking calls all the same; the rest of it stays thought.
  const bool unended = splitter_ && splitter_->in_thoughts();
  if (unended) parser_->add(all_thoughts_ + thoughts_, false);
  parser_->finish();
  if (unended) parser_->take_content();
  take_calls(parser_->calls());
}

std::string WrittenAnswer::take_content() { return parser_ ? parser_->take_content() : std::exchange(content_, {}); }

std::string WrittenAnswer::take_thoughts() {
  if (parser_) all_thoughts_ += thoughts_;
  return std::exchange(thoughts_, {});
}

int64_t tokens_of_thoughts(const std::string& thoughts, const Tokenizer& tokenizer) {
  if (thoughts.empty()) return 0;
  return static_cast<int64_t>(tokenizer.encode(thoughts, std::nullopt, {.add_special_tokens = false}).size());
}

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
