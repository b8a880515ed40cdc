// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/regex.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "work/generation/constraint/grammar/character_kinds.h"
#include "work/generation/constraint/grammar/characters.h"

namespace transom::constraint {

CodePoints joined_ranges(CodePoints ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePoints result;
  for (const auto& [low, high] : ranges) {
    if (!result.empty() && low <= result.back().second + 1) result.back().second = std::max(result.back().second, high);
    else result.emplace_back(low, high);
  }
  return result;
}

CodePoints complement(const CodePoints& ranges) {
  CodePoints result;
  uint32_t next = 0;
  for (const auto& [low, high] : joined_ranges(ranges)) {
    if (low > next) result.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= 0x10ffff) result.emplace_back(next, 0x10ffff);
  return result;
}

GrammarBuilder::Part json_characters(GrammarBuilder& builder, const CodePoints& ranges) {
  CodePoints plain;
  std::vector<GrammarBuilder::Part> parts;
  for (const auto& [low, high] : joined_ranges(ranges)) {
    for (uint32_t c = low; c <= std::min<uint32_t>(high, 0x7f); ++c) {
      if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
        plain.emplace_back(c, c);
        continue;
      }
      constexpr std::string_view kShort = "\b\t\n\f\r\"\\", kNames = "btnfr\"\\";
      if (const size_t at = kShort.find(static_cast<char>(c)); at != kShort.npos)
        parts.push_back(builder.literal(std::string("\\") + kNames[at]));
      else if (c == 0x7f) plain.emplace_back(c, c);
      else parts.push_back(builder.literal(fmt::format("\\u{:04x}", c)));
    }
    if (high > 0x7f) plain.emplace_back(std::max<uint32_t>(low, 0x80), high);
  }
  if (!plain.empty()) parts.push_back(builder.code_points(joined_ranges(plain)));
  return builder.either(parts);
}

namespace {

class RegexParser {
 public:
  RegexParser(GrammarBuilder& builder, std::string_view pattern, const RegexOptions& options)
      : builder_(builder), pattern_(pattern), options_(options) {}

  GrammarBuilder::Part whole() {
    if (pattern_.size() > kMostPatternBytes)
      fail("pattern: expected at most {} bytes, found {}", kMostPatternBytes, pattern_.size());
    if (options_.anchored) {
      if (pattern_.starts_with("^")) ++at_;
      const GrammarBuilder::Part part = alternatives(0);
      expect_end();
      return part;
    }
    return unanchored();
  }

 private:
  static constexpr int kMostGroups = 32;
  static constexpr uint32_t kAny[2] = {0, 0x10ffff};

  // Without ^ any text may stand before, without $ behind. Of alternatives each has its own.
  GrammarBuilder::Part unanchored() {
    std::vector<GrammarBuilder::Part> parts;
    do {
      std::vector<GrammarBuilder::Part> sequence;
      if (next_is('^')) ++at_;
      else sequence.push_back(builder_.star(characters({{0, 0x10ffff}})));
      sequence.push_back(terms(0));
      if (ended_by_anchor_) ended_by_anchor_ = false;
      else sequence.push_back(builder_.star(characters({{0, 0x10ffff}})));
      parts.push_back(builder_.sequence(sequence));
    } while (take('|'));
    expect_end();
    return builder_.either(parts);
  }

  GrammarBuilder::Part alternatives(int depth) {
    std::vector<GrammarBuilder::Part> parts;
    do {
      if (depth == 0 && next_is('^')) ++at_;
      parts.push_back(terms(depth));
      ended_by_anchor_ = false;
    } while (take('|'));
    return builder_.either(parts);
  }

  GrammarBuilder::Part terms(int depth) {
    std::vector<GrammarBuilder::Part> parts;
    while (at_ < pattern_.size() && !next_is('|') && !next_is(')')) {
      if (next_is('$')) {
        ++at_;
        if (depth > 0 || (at_ < pattern_.size() && !next_is('|'))) refuse("$ in the middle");
        ended_by_anchor_ = true;
        break;
      }
      parts.push_back(term(depth));
    }
    return builder_.sequence(parts);
  }

  // Repetitions make the part anew for each time, so it is read again from where it stands.
  GrammarBuilder::Part term(int depth) {
    const size_t begin = at_;
    const size_t nodes_limit = ++made_;
    if (nodes_limit > 50'000) fail("pattern: too large when its repetitions are written out");
    const GrammarBuilder::Part part = atom(depth);
    const auto again = [&, begin, first = true]() mutable {
      if (first) {
        first = false;
        return part;
      }
      if (++made_ > 50'000) fail("pattern: too large when its repetitions are written out");
      const size_t behind = at_;
      at_ = begin;
      const GrammarBuilder::Part copy = atom(depth);
      at_ = behind;
      return copy;
    };
    if (at_ >= pattern_.size()) return part;
    const char c = pattern_[at_];
    int64_t least = 1, most = 1;
    if (c == '*') least = 0, most = -1, ++at_;
    else if (c == '+') most = -1, ++at_;
    else if (c == '?') least = 0, ++at_;
    else if (c != '{' || !counts(least, most)) return part;  // a { that counts nothing is a character
    if (next_is('?')) ++at_;                                 // lazy: the same texts
    int64_t other_least = 0, other_most = 0;
    if (next_is('+') || next_is('*') || (next_is('{') && counts(other_least, other_most)))
      refuse("a repetition of a repetition");
    return builder_.repeat(again, least, most);
  }

  // {2}, {2,}, {,2}, {2,4}; false, with nothing taken, for all else.
  bool counts(int64_t& least, int64_t& most) {
    size_t at = at_ + 1;
    const auto number = [&](int64_t otherwise) {
      const size_t begin = at;
      int64_t value = 0;
      while (at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9') {
        if (at - begin == 6) refuse("a count of more than six digits");
        value = value * 10 + (pattern_[at++] - '0');
      }
      return at > begin ? value : otherwise;
    };
    const size_t begin = at;
    least = number(0), most = least;
    const bool is_range = at < pattern_.size() && pattern_[at] == ',';
    if (!is_range && at == begin) return false;
    if (is_range) ++at, most = number(-1);
    if (at >= pattern_.size() || pattern_[at] != '}') return false;
    if (most >= 0 && least > most) refuse("a count that is above its limit");
    at_ = at + 1;
    return true;
  }

  GrammarBuilder::Part atom(int depth) {
    const char c = pattern_[at_];
    if (c == '(') {
      if (depth >= kMostGroups) fail("pattern: groups deeper than {}", kMostGroups);
      ++at_;
      if (take('?')) {
        if (take(':')) {
        } else if (pattern_.substr(at_).starts_with("P<") ||
                   (next_is('<') && pattern_.substr(at_).find_first_of("=!") != 1)) {
          const size_t close = pattern_.find('>', at_);
          if (close == pattern_.npos) refuse("a name that is not closed");
          at_ = close + 1;
        } else {
          const bool looks = next_is('=') || next_is('!') || next_is('<');
          refuse(looks ? "look-around" : "a group that begins with (? and this");
        }
      }
      const GrammarBuilder::Part part = alternatives(depth + 1);
      if (!take(')')) refuse("a group that is not closed");
      return part;
    }
    if (c == '[') return characters(char_class());
    if (c == '.') {
      ++at_;
      return characters(surely_of('.'));
    }
    if (c == '\\') return characters(escape(false, false));
    if (c == '^') refuse("^ in the middle");
    if (c == '*' || c == '+' || c == '?') refuse("a repetition of nothing");
    const uint32_t character = next_character(pattern_, at_);
    return characters({{character, character}});
  }

  CodePoints char_class() {
    ++at_;
    const bool negated = take('^');
    CodePoints ranges;
    std::string kinds;
    for (bool first = true; first || !next_is(']'); first = false) {
      if (at_ >= pattern_.size()) refuse("a class that is not closed");
      if (next_is('\\') && at_ + 1 < pattern_.size()) kinds += pattern_[at_ + 1];
      CodePoints low = class_item(negated);
      if (next_is('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        ++at_;
        const CodePoints high = class_item(negated);
        if (low.size() != 1 || high.size() != 1 || low[0].first != low[0].second || high[0].first != high[0].second ||
            low[0].first > high[0].first)
          refuse("a range that is none");
        low[0].second = high[0].first;
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    ++at_;
    // A kind and what is none of it are all characters, also those that dialects differ in: [\s\S].
    for (const char* both : {"sS", "wW", "dD"})
      if (kinds.find(both[0]) != kinds.npos && kinds.find(both[1]) != kinds.npos) ranges = {{0, 0x10ffff}};
    return negated ? complement(ranges) : ranges;
  }

  CodePoints class_item(bool negated) {
    if (at_ >= pattern_.size()) refuse("a class that is not closed");
    if (next_is('\\')) return escape(true, negated);
    const uint32_t character = next_character(pattern_, at_);
    return {{character, character}};
  }

  // What a negated class leaves out are the characters that any dialect leaves out.
  CodePoints escape(bool in_class, bool negated) {
    ++at_;
    if (at_ >= pattern_.size()) refuse("a \\ at the end");
    const char c = pattern_[at_];
    ++at_;
    switch (c) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S':
        return negated ? perhaps_of(c) : surely_of(c);
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case '0':
        return {{0, 0}};
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'b':
        if (in_class) return {{'\b', '\b'}};
        refuse("\\b");
      default:
        break;
    }
    if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) refuse(fmt::format("\\{}", c));
    --at_;
    const uint32_t character = next_character(pattern_, at_);
    return {{character, character}};
  }

  CodePoints hexadecimal(size_t digits) {
    if (at_ + digits > pattern_.size()) refuse("an escape that is cut off");
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = pattern_[at_ + i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse("an escape that is no number");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    at_ += digits;
    return {{value, value}};
  }

  GrammarBuilder::Part characters(const CodePoints& ranges) {
    if (options_.in_json) return json_characters(builder_, ranges);
    return builder_.code_points(joined_ranges(ranges));
  }

  bool next_is(char c) const { return at_ < pattern_.size() && pattern_[at_] == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void expect_end() {
    if (at_ < pattern_.size()) refuse("a ) without its (");
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail("pattern {}: {} at byte {} is not supported", quoted(pattern_), what, at_);
  }

  GrammarBuilder& builder_;
  std::string_view pattern_;
  RegexOptions options_;
  size_t at_ = 0, made_ = 0;
  bool ended_by_anchor_ = false;
};

}  // namespace

GrammarBuilder::Part regex_part(GrammarBuilder& builder, std::string_view pattern, const RegexOptions& options) {
  return RegexParser(builder, pattern, options).whole();
}

}  // namespace transom::constraint
