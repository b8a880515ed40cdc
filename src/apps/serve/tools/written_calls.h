// SPDX-License-Identifier: Apache-2.0
// The calls in an answer that the grammar of its tools shapes (tool_choice required, or a name), as far as they are
// written: a limit may cut the last one, and streams send what there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/tools/tool_calls.h"
#include "apps/serve/tools/tool_choice.h"

namespace transom::serve {

class WrittenCalls {
 public:
  explicit WrittenCalls(const ToolChoice& choice);
  // More of the answer. Other choices have no calls here, whatever is added.
  void add(std::string_view text);
  // Arguments are as the model writes them and only ever grow; a call is there once its name is whole.
  const std::vector<ToolCall>& calls() const { return calls_; }
  // Whether the last call has all its arguments, where the grammar is that of required calls.
  bool whole() const { return place_ == Place::kBetween || place_ == Place::kBehind; }

 private:
  enum class Place { kBetween, kHead, kArguments, kBehind };
  void take(char c);
  void take_in_head(char c);
  void take_in_arguments(char c);

  ToolChoice::What what_;
  std::vector<ToolCall> calls_;
  Place place_ = Place::kBetween;
  std::vector<std::string> words_;  // the strings of the head: "name", the name, "parameters"
  std::string word_;
  bool quoted_ = false, escaped_ = false;  // within a string; behind its backslash
  int depth_ = 0;                          // of the arguments
};

}  // namespace transom::serve
