// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/python_calls.h"

#include <algorithm>
#include <cctype>

namespace transom::serve {
namespace {

constexpr int kDeepestLiteral = 32;

void append_utf8(std::string& text, uint32_t c) {
  if (c < 0x80) return void(text += static_cast<char>(c));
  if (c < 0x800) text += static_cast<char>(0xc0 | c >> 6);
  else if (c < 0x10000) text += static_cast<char>(0xe0 | c >> 12), text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
  else {
    text += static_cast<char>(0xf0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
  }
  text += static_cast<char>(0x80 | (c & 0x3f));
}

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  PythonSpan read() {
    PythonSpan span;
    const bool list = take('[');
    do {
      skip();
      PythonCall call;
      call.begin = at_;
      if (!read_call(call)) {
        span.state = at_ >= text_.size() ? JsonSpan::kCut : JsonSpan::kBroken;
        return span;
      }
      call.end = at_;
      span.calls.push_back(std::move(call));
    } while (list && take(','));
    if (list && !take(']')) {
      span.state = at_ >= text_.size() ? JsonSpan::kCut : JsonSpan::kBroken;
      return span;
    }
    span.state = JsonSpan::kWhole;
    span.length = at_;
    return span;
  }

 private:
  bool read_call(PythonCall& call) {
    call.name = word();
    if (call.name.empty() || std::isdigit(static_cast<unsigned char>(call.name[0])) || !take('(')) return false;
    const size_t behind = at_;
    if (read_arguments(call.arguments)) return true;
    call.arguments.clear();
    at_ = behind;
    return skip_to_end();
  }

  bool read_arguments(std::string& json) {
    json = "{";
    if (!take(')')) {
      do {
        skip();
        if (json.size() > 1 && peek() == ')') break;  // a comma behind the last one
        const std::string key = word();
        if (key.empty() || !take('=')) return false;
        json += (json.size() > 1 ? "," : "") + json_of_text(key) + ":";
        if (!literal(json, 0)) return false;
      } while (take(','));
      if (!take(')')) return false;
    }
    json += '}';
    return true;
  }

  // Behind the bracket that closes a call, whatever stands in it.
  bool skip_to_end() {
    for (int depth = 1; at_ < text_.size();) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        std::string ignored;
        if (!string(ignored)) return false;
        continue;
      }
      ++at_;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && --depth == 0) return c == ')';
    }
    return false;
  }

  void skip() {
    while (at_ < text_.size() && std::string_view(" \n\t\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    skip();
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool literal(std::string& json, int depth) {
    skip();
    if (at_ >= text_.size() || depth > kDeepestLiteral) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      std::string text;
      do {
        if (!string(text)) return false;
        skip();
      } while (peek() == '"' || peek() == '\'');  // strings side by side are one
      json += json_of_text(text);
      return true;
    }
    if (c == '[' || c == '(') return list(json, depth);
    if (c == '{') return dictionary(json, depth);
    return word_or_number(json);
  }

  bool list(std::string& json, int depth) {
    const char close = text_[at_++] == '[' ? ']' : ')';
    const size_t begin = json.size();
    json += '[';
    while (!take(close)) {
      if (json.size() > begin + 1) json += ',';
      if (!literal(json, depth + 1) || (!take(',') && (skip(), peek() != close))) return false;
    }
    json += ']';
    return true;
  }

  bool dictionary(std::string& json, int depth) {
    ++at_;
    const size_t begin = json.size();
    json += '{';
    while (!take('}')) {
      if (json.size() > begin + 1) json += ',';
      const size_t key = json.size();
      if (!literal(json, depth + 1) || json[key] != '"' || !take(':')) return false;
      json += ':';
      if (!literal(json, depth + 1) || (!take(',') && (skip(), peek() != '}'))) return false;
    }
    json += '}';
    return true;
  }

  // Numbers keep their digits.
  bool word_or_number(std::string& json) {
    std::string token;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '+' ||
                                  text_[at_] == '-' || text_[at_] == '.' || text_[at_] == '_'))
      token += text_[at_++];
    if (token == "True" || token == "true") json += "true";
    else if (token == "False" || token == "false") json += "false";
    else if (token == "None" || token == "null") json += "null";
    else return number(token, json);
    return true;
  }

  // 1_000, .5, 5. and +1 as JSON has them.
  static bool number(std::string token, std::string& json) {
    std::erase(token, '_');
    if (token.starts_with('+')) token.erase(0, 1);
    const size_t first = token.starts_with('-') ? 1 : 0;
    if (token.compare(first, 1, ".") == 0) token.insert(first, "0");
    if (const size_t point = token.find('.');
        point != token.npos &&
        (point + 1 == token.size() || !std::isdigit(static_cast<unsigned char>(token[point + 1]))))
      token.insert(point + 1, "0");
    const JsonSpan span = scan_json(token);
    if (token.empty() || !(std::isdigit(static_cast<unsigned char>(token[0])) || token[0] == '-') ||
        span.state != JsonSpan::kWhole || span.length != token.size())
      return false;
    json += token;
    return true;
  }

  // As Python reads it: escapes that it does not know stay.
  bool string(std::string& result) {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    const std::string close = text_.substr(at_).starts_with(triple) ? triple : std::string(1, quote);
    at_ += close.size();
    while (at_ < text_.size() && !text_.substr(at_).starts_with(close)) {
      const char c = text_[at_++];
      if (c != '\\') result += c;
      else if (!escape(result)) return false;
    }
    if (at_ >= text_.size()) return false;
    at_ += close.size();
    return true;
  }

  bool escape(std::string& result) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    static constexpr std::string_view kNames = "abfnrtv\\'\"", kCharacters = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kNames.find(c); known != std::string_view::npos) {
      result += kCharacters[known];
    } else if (c == '\n') {  // goes on in the next line
    } else if (c >= '0' && c <= '7') {
      uint32_t value = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i)
        value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      append_utf8(result, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      uint32_t value = 0;
      if (!hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8, value)) return false;
      // JSON's pairs of surrogates, which models write where Python would have one character.
      uint32_t low = 0;
      if (value >= 0xd800 && value < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
        at_ += 2;
        if (!hexadecimal(4, low) || low < 0xdc00 || low > 0xdfff) return false;
        value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
      }
      if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return false;
      append_utf8(result, value);
    } else {
      result += '\\';
      result += c;
    }
    return true;
  }

  bool hexadecimal(int digits, uint32_t& value) {
    for (int i = 0; i < digits; ++i) {
      if (at_ >= text_.size() || !std::isxdigit(static_cast<unsigned char>(text_[at_]))) return false;
      const char c = text_[at_++];
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

PythonSpan scan_python_calls(std::string_view text) { return PythonReader(text).read(); }

}  // namespace transom::serve
