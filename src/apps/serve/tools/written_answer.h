// SPDX-License-Identifier: Apache-2.0
// An answer while it is written, as the tools and the choice of its request ask for it. All interfaces with tools take
// content and calls from here, of whole answers and of streams, so that both are the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/serve/reasoning/thought_splitter.h"
#include "apps/serve/tools/call_ids.h"
#include "apps/serve/tools/tool_calls.h"
#include "apps/serve/tools/tool_choice.h"
#include "apps/serve/tools/written_calls.h"
#include "transom/engine.h"

namespace transom::serve {

class WrittenAnswer {
 public:
  // `thoughts`: how the model marks what it thinks; without a form all of it is content.
  WrittenAnswer(const ToolChoice& tools, CallIds ids, bool skip_special_tokens, ThoughtStart thoughts = {});

  // What the event adds; `end`: what is shown of the end of the text.
  void add(const EngineEvent& event, const std::string& end = "");
  // Nothing follows.
  void finish();
  // The content since the last call; it never changes later.
  std::string take_content();
  // What the model has thought since the last call; it never changes later.
  std::string take_thoughts();
  // Arguments only ever grow. Where the tools shape the answer, a limit may have cut the last one.
  const std::vector<ToolCall>& calls() const { return calls_; }
  // Whether something, such as a stop string, has ended the answer within a call that the tools shape.
  bool cut() const { return what_ == ToolChoice::kRequired && !shaped_.whole(); }

 private:
  void read_pieces(const std::vector<TextPiece>& pieces);
  void take_calls(const std::vector<ToolCall>& calls);
  ToolChoice::What what_;
  bool parallel_, skip_special_tokens_;
  CallIds ids_;
  WrittenCalls shaped_;                   // of kRequired and kNamed
  std::optional<ToolCallParser> parser_;  // of kAuto
  std::optional<ThoughtSplitter> splitter_;
  std::string content_, thoughts_, all_thoughts_;
  std::vector<ToolCall> calls_;
};

// How many tokens they take, for the usage of an answer.
int64_t tokens_of_thoughts(const std::string& thoughts, const Tokenizer& tokenizer);

}  // namespace transom::serve
