// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/written_calls.h"

namespace transom::serve {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

WrittenCalls::WrittenCalls(const ToolChoice& choice) : what_(choice.what) {
  if (what_ == ToolChoice::kNamed) calls_.push_back({choice.name, "", ""});
}

void WrittenCalls::add(std::string_view text) {
  if (what_ == ToolChoice::kNamed) calls_[0].arguments += text;
  if (what_ != ToolChoice::kRequired) return;
  for (const char c : text) take(c);
}

// [{"name": NAME, "parameters": ARGUMENTS}, ...], in the order of the schema.
void WrittenCalls::take(char c) {
  if (place_ == Place::kHead) return take_in_head(c);
  if (place_ == Place::kArguments) return take_in_arguments(c);
  if (place_ == Place::kBetween && c == '{') place_ = Place::kHead, words_.clear();
  if (place_ == Place::kBehind && c == '}') place_ = Place::kBetween;
}

// Names have nothing that JSON escapes.
void WrittenCalls::take_in_head(char c) {
  if (quoted_ && c != '"') {
    word_ += c;
  } else if (quoted_) {
    quoted_ = false;
    words_.push_back(word_);
    if (words_.size() == 2) calls_.push_back({word_, "", ""});
  } else if (c == '"') {
    quoted_ = true;
    word_.clear();
  } else if (c == ':' && words_.size() == 3) {
    place_ = Place::kArguments;
    depth_ = 0;
  }
}

void WrittenCalls::take_in_arguments(char c) {
  std::string& arguments = calls_.back().arguments;
  if (arguments.empty() && is_blank(c)) return;
  if (!quoted_ && depth_ == 0 && (c == ',' || c == '}')) {  // behind a number or a word
    place_ = Place::kBehind;
    return take(c);
  }
  arguments += c;
  if (quoted_) {
    if (escaped_ || c == '\\') escaped_ = !escaped_;
    else quoted_ = c != '"';
  } else if (c == '"') {
    quoted_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  }
  const bool closed = c == '"' || c == '}' || c == ']';
  if (closed && !quoted_ && depth_ == 0) place_ = Place::kBehind;
}

}  // namespace transom::serve
