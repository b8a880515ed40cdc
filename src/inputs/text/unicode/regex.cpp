// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <unicode/uchar.h>
#include <unicode/uset.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

namespace {

struct MatchData {
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~MatchData() { pcre2_match_data_free(data); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  pcre2_match_data* data;
};

std::string message(int error) {
  PCRE2_UCHAR text[200];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// \p{Han}: Oniguruma means the characters of the script, PCRE2 also those that other scripts share with it.
std::string script_property(std::string_view name) {
  const std::string text(name);
  const bool script = u_getPropertyValueEnum(UCHAR_SCRIPT, text.c_str()) != UCHAR_INVALID_CODE &&
                      u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, text.c_str()) == UCHAR_INVALID_CODE;
  return script ? "sc:" + text : text;
}

// Classes that hold other characters in Oniguruma than in PCRE2: their name, what stands for them between brackets, and
// the same for ICU, which says what is not in them.
struct NamedClass {
  std::string_view name, content, icu;
};
constexpr NamedClass kWord = {"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}", "[[:Alphabetic:][:M:][:Nd:][:Pc:]]"};
// Outside of brackets Oniguruma takes the numbers of Latin-1 for parts of words too.
constexpr NamedClass kBareWord = {"", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe", ""};
constexpr NamedClass kHexDigits = {"xdigit", "0-9A-Fa-f", "[0-9A-Fa-f]"};
constexpr NamedClass kSpace = {"space", "\\p{White_Space}", "[:White_Space:]"};
constexpr NamedClass kClasses[] = {kWord,
                                   kHexDigits,
                                   kSpace,
                                   {"alnum", "\\p{Alphabetic}\\p{Nd}", "[[:Alphabetic:][:Nd:]]"},
                                   {"alpha", "\\p{Alphabetic}", "[:Alphabetic:]"},
                                   {"blank", "\\p{Zs}\\t", "[[:Zs:]\\t]"},
                                   {"digit", "\\p{Nd}", "[:Nd:]"},
                                   {"lower", "\\p{Lowercase}", "[:Lowercase:]"},
                                   {"punct", "\\p{P}\\p{S}", "[[:P:][:S:]]"},
                                   {"upper", "\\p{Uppercase}", "[:Uppercase:]"}};

// What is not in a class, to stand between brackets beside others: ranges, since PCRE2 has no class in a class.
std::string complement(const NamedClass& set) {
  UErrorCode status = U_ZERO_ERROR;
  const std::u16string pattern(set.icu.begin(), set.icu.end());
  const std::unique_ptr<USet, void (*)(USet*)> characters(
      uset_openPattern(pattern.data(), static_cast<int32_t>(pattern.size()), &status), uset_close);
  require(U_SUCCESS(status), "ICU does not read the class {}", set.icu);
  uset_complement(characters.get());
  std::string result;
  for (int32_t item = 0; item < uset_getItemCount(characters.get()); ++item) {
    UChar32 first = 0, last = 0;
    if (uset_getItem(characters.get(), item, &first, &last, nullptr, 0, &status) != 0) continue;
    const auto range = [&](UChar32 from, UChar32 to) {
      if (from <= to) fmt::format_to(std::back_inserter(result), "\\x{{{:x}}}-\\x{{{:x}}}", from, to);
    };
    range(first, std::min(last, 0xd7ff));  // halves of characters are none, and PCRE2 refuses them
    range(std::max(first, 0xe000), last);
  }
  return result;
}

std::string class_text(const NamedClass& set, bool negated, bool bracketed) {
  if (bracketed) return negated ? complement(set) : std::string(set.content);
  return std::string(negated ? "[^" : "[").append(set.content).append("]");
}

// \b and \B: where characters of words begin or end, by Oniguruma's words.
std::string word_boundary(bool negated) {
  const std::string word = class_text(kBareWord, false, false);
  return negated ? fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word)
                 : fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
}

// \p{Alnum}, \p{Word}, ...: the classes of brackets by the form of a property. Null: a property of Unicode.
const NamedClass* class_property(std::string_view name) {
  std::string small(name);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const NamedClass& set : kClasses) {
    if (set.name == small) return &set;
  }
  return nullptr;
}
constexpr NamedClass kPunctuation = {"punct", "\\p{P}", "[:P:]"};  // of \p{Punct}: signs are in [:punct:] alone

// The class that an escape names, or null.
const NamedClass* class_escape(char escaped) {
  switch (escaped) {
    case 'w':
    case 'W':
      return &kWord;
    case 's':
    case 'S':
      return &kSpace;
    case 'h':
    case 'H':
      return &kHexDigits;
    default:
      return nullptr;
  }
}

// Oniguruma's pattern in PCRE2's syntax: escapes that mean other characters there are written out, and the inner
// brackets of classes in classes, [^a[bc]], are taken away.
std::string translated(std::string_view pattern, const std::string& where) {
  std::string result;
  int depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      const size_t close = pattern.find('}', i);
      if (const NamedClass* set = class_escape(escaped)) {
        const bool bracketed = depth > 0, negated = escaped == 'W' || escaped == 'S' || escaped == 'H';
        result += class_text(set == &kWord && !bracketed ? kBareWord : *set, negated, bracketed);
      } else if (depth == 0 && (escaped == 'b' || escaped == 'B')) {
        result += word_boundary(escaped == 'B');
      } else if (escaped == 'u' && i + 5 <= pattern.size()) {
        result.append("\\x{").append(pattern.substr(i + 1, 4)).append("}");
        i += 4;
      } else if (escaped == 'v') {
        result += "\\x0b";  // all that ends a line in PCRE2
      } else if ((escaped == 'p' || escaped == 'P') && pattern.substr(i + 1, 1) == "{" && close != pattern.npos) {
        const bool negated = pattern.substr(i + 2, 1) == "^";
        const size_t name = i + 2 + (negated ? 1 : 0);
        const std::string_view property = pattern.substr(name, close - name);
        if (const NamedClass* set = class_property(property)) {
          const NamedClass& meant = set->name == "punct"                ? kPunctuation
                                    : set->name == "word" && depth == 0 ? kBareWord
                                                                        : *set;
          result += class_text(meant, negated != (escaped == 'P'), depth > 0);
        } else {
          result.append({'\\', escaped}).append(negated ? "{^" : "{").append(script_property(property)).append("}");
        }
        i = close;
      } else if (pattern.substr(i + 1, 1) == "{" && std::string_view("xogk").find(escaped) != std::string_view::npos &&
                 close != pattern.npos) {
        result += pattern.substr(i - 1, close + 2 - i), i = close;
      } else {
        result += c, result += escaped;
      }
    } else if (c == '[' && depth == 0) {
      depth = 1, result += c;
      if (pattern.substr(i + 1, 1) == "^") result += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") result += pattern[++i];
    } else if (c == '[' && pattern.substr(i + 1, 1) == ":") {
      const size_t end = std::min(pattern.find(":]", i), pattern.size() - 2);
      const bool negated = pattern.substr(i + 2, 1) == "^";
      const size_t name = i + 2 + (negated ? 1 : 0);
      const NamedClass* set = class_property(pattern.substr(name, std::max(end, name) - name));
      if (set) result += class_text(*set, negated, true);
      else result += pattern.substr(i, end + 2 - i);
      i = end + 1;
    } else if (c == '[') {
      require(pattern.substr(i + 1, 1) != "^",
              "{}: the regular expression {} negates a class in a class, which is not known", where, quoted(pattern));
      ++depth;
    } else if (c == ']' && depth > 0) {
      if (--depth == 0) result += c;
    } else if (c == '&' && depth > 0 && pattern.substr(i, 2) == "&&") {
      fail("{}: the regular expression {} intersects classes, which is not known", where, quoted(pattern));
    } else if (c == '(' && depth == 0 && pattern.substr(i + 1, 1) == "?") {
      // The dot matches line ends with (?m), which is (?s) in PCRE2.
      const size_t end = std::min(pattern.find_first_not_of("imx-", i + 2), pattern.size());
      const bool flags = end > i + 2 && (pattern.substr(end, 1) == ":" || pattern.substr(end, 1) == ")");
      result += "(?";
      for (++i; flags && i + 1 < end; ++i) result += pattern[i + 1] == 'm' ? 's' : pattern[i + 1];
    } else if (c == '{' && depth == 0) {
      result += c;
      if (pattern.substr(i + 1, 1) == ",") result += '0';
    } else if (c == '}' && depth == 0 && pattern.substr(i + 1, 1) == "+") {
      // X{1,3}+ is (X{1,3})+, which PCRE2 reads as possessive.
      const size_t open = result.rfind('{');
      const std::string least = open == result.npos ? "" : result.substr(open + 1, result.find(',', open) - open - 1);
      require(least == "0" || least == "1", "{}: the regular expression {} repeats {}}}, which is not known", where,
              quoted(pattern), open == result.npos ? "" : result.substr(open));
      result.resize(open), ++i;
      result += least == "0" ? '*' : '+';
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

Regex::Regex(const std::string& pattern, std::string where)
    : code_(std::make_unique<Code>()), where_(std::move(where)) {
  require(pattern.size() < 100000, "{}: the regular expression is longer than 100000 bytes", where_);
  const std::string flat = translated(pattern, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(flat.data()), flat.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    fail("{}: the regular expression {} is wrong at byte {}: {}", where_, quoted(pattern), offset, message(error));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it matching is slower, not different
}

Regex::~Regex() = default;

void Regex::find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const {
  matches.clear();
  const MatchData match(code_->code);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const int found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.data, nullptr);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) fail("{}: the regular expression failed on a text: {}", where_, message(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
    const size_t begin = range[0], end = range[1];
    if (end < begin || begin < at) return;  // \K may turn matches around
    if (begin == end && last_end == end) {
      if (at == text.size()) return;
      next_character(text, at);
      continue;
    }
    matches.emplace_back(begin, end);
    last_end = at = end;
  }
}

}  // namespace transom::text
