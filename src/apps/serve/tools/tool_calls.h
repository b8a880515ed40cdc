// SPDX-License-Identifier: Apache-2.0
// Calls of tools in what models write, each family in its own form, while it is written. Nothing is evaluated, and no
// text makes the parser take more than linear time. What cannot be parsed is content.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/tools/call_forms.h"

namespace transom::serve {

// Content and calls depend on the whole text alone, not on the pieces in which it comes. A call is there once it is
// whole. Names that are not among the tools of the request are no calls, and parameters without quotes get their types
// from them. What is no call beside others is content, without the blanks before and between calls. While the text is
// within <think>, at its beginning, nothing is a call.
class ToolCallParser {
 public:
  // `skip_special_tokens`: those that belong to no call are left out.
  ToolCallParser(std::shared_ptr<const KnownTools> tools, bool skip_special_tokens);

  // More of the text: characters, or one special token. Marks of calls are known in either form.
  void add(std::string_view text, bool special);
  // Nothing follows.
  void finish();
  // The content that is certain since the last call.
  std::string take_content() {
    taken_ += content_.size();
    return std::exchange(content_, {});
  }
  const std::vector<ToolCall>& calls() const { return calls_; }

 private:
  struct Mark {  // where a form, a frame or the beginning of one stands
    size_t place = 0, length = 0;
    const CallForm* form = nullptr;
    enum Kind { kForm, kFrameBefore, kFrameBehind, kBeginning } kind = kForm;
  };
  void read();
  bool read_beginning();
  bool read_thinking();
  bool take_mark(const Mark& mark);
  bool take_calls(size_t place, const FoundCalls& found);
  Mark next_mark() const;
  bool is_special(size_t begin, size_t length) const;
  FoundCalls look(size_t place, const CallForm* form);
  void emit(size_t end);
  void add_content(size_t begin, size_t end);
  void add_content(std::string text);
  void add_call(ToolCall call);

  std::shared_ptr<const KnownTools> tools_;
  bool skip_special_tokens_;
  std::string text_;                                // all of it
  std::vector<std::pair<size_t, size_t>> special_;  // tokens in it
  size_t done_ = 0;                                 // bytes that are content or calls
  size_t work_ = 0, tried_ = 0;                     // bytes that were looked at for calls; of the text at the last try
  bool ended_ = false, begun_ = false, thinks_ = false;
  size_t think_ = 0;     // from where on the end of the thinking is looked for
  std::string gap_;      // blanks and frames, which a call makes vanish
  std::string dropped_;  // blanks that vanished behind the content
  bool any_content_ = false, behind_call_ = false;
  std::string content_;
  size_t taken_ = 0;  // bytes of content that were taken
  std::vector<ToolCall> calls_;
};

struct ParsedAnswer {
  std::string content;
  std::vector<ToolCall> calls;
};

// Of a whole text without special tokens.
ParsedAnswer parse_tool_calls(std::string_view text, const Json& tools);

}  // namespace transom::serve
