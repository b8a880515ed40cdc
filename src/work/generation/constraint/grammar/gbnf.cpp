// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/gbnf.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "work/generation/constraint/grammar/characters.h"
#include "work/generation/constraint/grammar/regex.h"

namespace transom::constraint {
namespace {

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Grammar grammar() {
    if (text_.size() > kMostGrammarBytes)
      fail("grammar: expected at most {} bytes, found {}", kMostGrammarBytes, text_.size());
    rule_of("root");
    for (skip(true); at_ < text_.size(); skip(true)) rule();
    for (const auto& [name, rule] : rules_)
      if (!defined_[name]) fail("grammar: the rule {} is not defined", quoted(name));
    return builder_.finish("grammar");
  }

 private:
  using Part = GrammarBuilder::Part;
  static constexpr int kMostGroups = 64;

  uint32_t rule_of(const std::string& name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_[name] = builder_.add_rule();
  }

  void rule() {
    const std::string name = word();
    skip(false);
    if (!text_.substr(at_).starts_with("::=")) refuse("::= behind the name of a rule");
    at_ += 3;
    const uint32_t rule = rule_of(name);
    if (defined_[name]) fail("grammar: the rule {} is defined twice", quoted(name));
    defined_[name] = true;
    builder_.define(rule, alternatives(0));
  }

  Part alternatives(int depth) {
    std::vector<Part> parts;
    do {
      skip(true);
      parts.push_back(sequence(depth));
      skip(depth > 0 || next_alternative());
    } while (take('|'));
    return builder_.either(parts);
  }

  // Whether the alternatives go on in a later line.
  bool next_alternative() {
    const size_t before = at_;
    skip(true);
    const bool found = at_ < text_.size() && text_[at_] == '|';
    at_ = before;
    return found;
  }

  Part sequence(int depth) {
    std::vector<Part> parts;
    while (true) {
      skip(depth > 0);
      if (at_ >= text_.size() || text_[at_] == '|' || text_[at_] == ')' || text_[at_] == '\n') break;
      parts.push_back(item(depth));
    }
    return builder_.sequence(parts);
  }

  Part item(int depth) {
    const size_t begin = at_;
    const Part part = atom(depth);
    int64_t least = 1, most = 1;
    if (take('*')) least = 0, most = -1;
    else if (take('+')) most = -1;
    else if (take('?')) least = 0;
    else if (at_ < text_.size() && text_[at_] == '{') counts(least, most);
    else return part;
    const size_t behind = at_;
    bool first = true;
    const Part repeated = builder_.repeat(
        [&] {
          if (first) {
            first = false;
            return part;
          }
          if (++made_ > 50'000) fail("grammar: too large when its repetitions are written out");
          at_ = begin;
          return atom(depth);
        },
        least, most);
    at_ = behind;
    return repeated;
  }

  void counts(int64_t& least, int64_t& most) {
    ++at_;
    least = number();
    most = least;
    if (take(',')) most = at_ < text_.size() && text_[at_] == '}' ? -1 : number();
    if (!take('}')) refuse("}");
  }

  int64_t number() {
    int64_t value = 0;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - begin < 6)
      value = value * 10 + (text_[at_++] - '0');
    if (at_ == begin) refuse("a number");
    return value;
  }

  Part atom(int depth) {
    if (++made_ > 50'000) fail("grammar: too large when its repetitions are written out");
    const char c = text_[at_];
    if (c == '"') return literal();
    if (c == '[') return char_class();
    if (c == '.') {
      ++at_;
      return builder_.code_points({{0, 0x10ffff}});
    }
    if (c == '(') {
      if (depth >= kMostGroups) fail("grammar: groups deeper than {}", kMostGroups);
      ++at_;
      const Part part = alternatives(depth + 1);
      skip(true);
      if (!take(')')) refuse(")");
      return part;
    }
    return builder_.call(rule_of(word()));
  }

  Part literal() {
    ++at_;
    std::vector<Part> parts;
    while (at_ < text_.size() && text_[at_] != '"') {
      const uint32_t character = this->character();
      parts.push_back(builder_.code_points({{character, character}}));
    }
    if (!take('"')) refuse("\" at the end of a literal");
    return builder_.sequence(parts);
  }

  Part char_class() {
    ++at_;
    const bool negated = take('^');
    CodePoints ranges;
    while (at_ < text_.size() && text_[at_] != ']') {
      const uint32_t low = character();
      uint32_t high = low;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = character();
        if (high < low) refuse("a rising range");
      }
      ranges.emplace_back(low, high);
    }
    if (!take(']')) refuse("]");
    return builder_.code_points(negated ? complement(ranges) : joined_ranges(ranges));
  }

  uint32_t character() {
    if (text_[at_] != '\\') return next_character(text_, at_);
    ++at_;
    if (at_ >= text_.size()) refuse("a character");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'U':
        return hexadecimal(8);
      default:
        return static_cast<uint8_t>(c);
    }
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse("hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > 0x10ffff) refuse("a character");
    return value;
  }

  std::string word() {
    const size_t begin = at_;
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    };
    while (at_ < text_.size() && fits(text_[at_])) ++at_;
    if (at_ == begin) refuse("the name of a rule");
    return std::string(text_.substr(begin, at_ - begin));
  }

  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) ++at_;
      else break;
    }
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n');
    fail("grammar: line {}: expected {}, found {}", line, expected,
         at_ < text_.size() ? quoted(text_.substr(at_, 20)) : "the end");
  }

  std::string_view text_;
  size_t at_ = 0, made_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, uint32_t> rules_;
  std::map<std::string, bool> defined_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).grammar(); }

}  // namespace transom::constraint
