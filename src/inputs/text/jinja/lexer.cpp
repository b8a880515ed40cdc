// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/jinja/lexer.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::jinja {
namespace {

using Lexeme = Token::Kind;

bool blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    source_.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') source_ += source[i];
      else if (source_ += '\n'; source.substr(i + 1, 1) == "\n") ++i;
    }
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(Lexeme::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(Lexeme kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  // Text up to the next tag, and the tag.
  void text() {
    size_t tag = at_;
    for (; tag < source_.size(); ++tag) {
      const std::string_view two = std::string_view(source_).substr(tag, 2);
      if (two == "{{" || two == "{%" || two == "{#") break;
    }
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const size_t length = text.size();
    const std::string_view opening = std::string_view(source_).substr(tag, 3);
    if (opening.ends_with('-') && opening.size() == 3) {
      while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    } else if (!opening.empty() && opening[1] != '{' && !(opening.size() == 3 && opening[2] == '+')) {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none
      const std::string_view last = text.substr(line_begin);
      if ((line_begin > 0 || at_line_begin_) && std::all_of(last.begin(), last.end(), blank)) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) add(Lexeme::kText, std::string(text));
    advance(length);
    if (at_ >= source_.size()) return;
    const char kind = source_[at_ + 1];
    if (kind == '#') return comment();
    advance(2);
    if (rest().starts_with('-') || rest().starts_with('+')) advance(1);
    if (kind == '%' && raw()) return;
    add(kind == '%' ? Lexeme::kBlockBegin : Lexeme::kOutputBegin, "");
    code(kind == '%' ? "%}" : "}}", kind == '%');
  }

  // Takes what a closing tag takes: "-" the blanks behind it, else the line end if `trim`.
  void close(size_t length, bool stripped, bool trim) {
    advance(length);
    const size_t before = at_;
    if (stripped) {
      while (at_ < source_.size() && blank(source_[at_])) advance(1);
    } else if (trim && at_ < source_.size() && source_[at_] == '\n') {
      advance(1);
    }
    at_line_begin_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void comment() {
    const size_t end = source_.find("#}", at_ + 2);
    require(end != std::string::npos, "line {}: the comment has no end: expected '#}}'", line_);
    const char last = source_[end - 1];
    const bool marked = end > at_ + 2;
    advance(end - at_);
    close(2, marked && last == '-', !(marked && last == '+'));
  }

  // {% raw %} ... {% endraw %}
  bool raw() {
    const auto match = [&](size_t at, std::string_view word, size_t& end, bool& stripped, bool& kept) {
      while (at < source_.size() && blank(source_[at])) ++at;
      if (!std::string_view(source_).substr(at).starts_with(word)) return false;
      at += word.size();
      while (at < source_.size() && blank(source_[at])) ++at;
      stripped = at < source_.size() && source_[at] == '-';
      kept = at < source_.size() && source_[at] == '+';
      if (stripped || kept) ++at;
      end = at + 2;
      return std::string_view(source_).substr(at, 2) == "%}";
    };
    size_t end = 0;
    bool stripped = false, kept = false;
    if (!match(at_, "raw", end, stripped, kept)) return false;
    const int line = line_;
    close(end - at_, stripped, !kept);
    for (size_t at = source_.find("{%", at_); at != std::string::npos; at = source_.find("{%", at + 2)) {
      const bool strip_front = std::string_view(source_).substr(at + 2, 1) == "-";
      const bool keep_front = std::string_view(source_).substr(at + 2, 1) == "+";
      if (!match(at + 2 + (strip_front || keep_front ? 1 : 0), "endraw", end, stripped, kept)) continue;
      std::string_view text = std::string_view(source_).substr(at_, at - at_);
      if (strip_front) {
        while (!text.empty() && blank(text.back())) text.remove_suffix(1);
      } else if (!keep_front) {
        const size_t line_begin = text.rfind('\n') + 1;
        const std::string_view last = text.substr(line_begin);
        if (line_begin > 0 && std::all_of(last.begin(), last.end(), blank)) text = text.substr(0, line_begin);
      }
      if (!text.empty()) add(Lexeme::kText, std::string(text));
      advance(at - at_);
      close(end - at_, stripped, !kept);
      return true;
    }
    fail("line {}: the raw block has no endraw", line);
  }

  void code(std::string_view closing, bool block) {
    std::string brackets;  // those that are open
    while (true) {
      while (at_ < source_.size() && blank(source_[at_])) advance(1);
      const std::string_view left = rest();
      require(!left.empty(), "line {}: expected '{}' before the end of the template", line_, closing);
      const bool marked = left[0] == '-' || left[0] == '+';
      const bool ends =
          brackets.empty() &&
          (left.starts_with(closing) || (marked && left.substr(1).starts_with(closing) && (left[0] == '-' || block)));
      if (ends) {
        add(block ? Lexeme::kBlockEnd : Lexeme::kOutputEnd, "");
        close(marked ? 3 : 2, left[0] == '-', block && left[0] != '+');
        return;
      }
      if (name_begin(left[0])) word();
      else if (digit(left[0])) number();
      else if (left[0] == '"' || left[0] == '\'') quoted_text();
      else symbol(brackets);
    }
  }

  void word() {
    size_t end = 0;
    const std::string_view left = rest();
    while (end < left.size() && (name_begin(left[end]) || digit(left[end]))) ++end;
    add(Lexeme::kName, std::string(left.substr(0, end)));
    advance(end);
  }

  void number() {
    const std::string_view left = rest();
    size_t end = 0;
    const auto digits = [&] {
      while (end < left.size() && (digit(left[end]) || (left[end] == '_' && end > 0))) ++end;
    };
    digits();
    bool real = false;
    if (end + 1 < left.size() && left[end] == '.' && digit(left[end + 1])) real = true, ++end, digits();
    if (end < left.size() && (left[end] == 'e' || left[end] == 'E')) {
      const size_t mark = end++;
      if (end < left.size() && (left[end] == '+' || left[end] == '-')) ++end;
      if (end < left.size() && digit(left[end])) real = true, digits();
      else end = mark;
    }
    std::string text(left.substr(0, end));
    std::erase(text, '_');
    add(real ? Lexeme::kFloat : Lexeme::kInteger, std::move(text));
    advance(end);
  }

  void quoted_text() {
    const std::string_view left = rest();
    const char quote = left[0];
    std::string text;
    size_t i = 1;
    const auto hex = [&](size_t digits) {
      char32_t value = 0;
      for (size_t k = 0; k < digits; ++k, ++i) {
        const char c = i < left.size() ? left[i] : 'x';
        const int digit_value = digit(c)               ? c - '0'
                                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                       : -1;
        require(digit_value >= 0, "line {}: expected {} hexadecimal digits in a text", line_, digits);
        value = value * 16 + static_cast<char32_t>(digit_value);
      }
      require(value < 0x110000 && (value < 0xD800 || value > 0xDFFF), "line {}: \\u{:x} is no character", line_,
              static_cast<uint32_t>(value));
      text::append_character(text, value);
    };
    for (; i < left.size() && left[i] != quote;) {
      if (left[i] != '\\' || i + 1 >= left.size()) {
        text += left[i++];
        continue;
      }
      const char c = left[i + 1];
      i += 2;
      switch (c) {
        case 'n':
          text += '\n';
          break;
        case 't':
          text += '\t';
          break;
        case 'r':
          text += '\r';
          break;
        case 'a':
          text += '\a';
          break;
        case 'b':
          text += '\b';
          break;
        case 'f':
          text += '\f';
          break;
        case 'v':
          text += '\v';
          break;
        case '0':
          text += '\0';
          break;
        case '\n':
          break;
        case 'x':
          hex(2);
          break;
        case 'u':
          hex(4);
          break;
        case 'U':
          hex(8);
          break;
        case '\\':
        case '\'':
        case '"':
          text += c;
          break;
        default:
          text += '\\', text += c;
      }
    }
    require(i < left.size(), "line {}: a text has no end: expected {}", line_, quote);
    add(Lexeme::kString, std::move(text));
    advance(i + 1);
  }

  void symbol(std::string& brackets) {
    constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
                                             ")",  "[",  "]",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"};
    const std::string_view left = rest();
    for (const std::string_view symbol : kSymbols) {
      if (!left.starts_with(symbol)) continue;
      if (symbol == "(" || symbol == "[" || symbol == "{") brackets += symbol == "(" ? ')' : symbol == "[" ? ']' : '}';
      if (symbol == ")" || symbol == "]" || symbol == "}") {
        require(!brackets.empty() && brackets.back() == symbol[0], "line {}: unexpected '{}'", line_, symbol);
        brackets.pop_back();
      }
      add(Lexeme::kSymbol, std::string(symbol));
      return advance(symbol.size());
    }
    fail("line {}: unexpected character {}", line_, quoted(left.substr(0, 1)));
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;  // what precedes the text ends with a line end, or is nothing
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace transom::jinja
