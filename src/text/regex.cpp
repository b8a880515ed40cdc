// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

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

// Oniguruma's classes may contain classes, [^a[bc]], which PCRE2 reads otherwise: the inner brackets are taken away.
std::string without_nested_classes(std::string_view pattern, const std::string& where) {
  std::string result;
  int depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      result += c, result += pattern[++i];
    } else if (c == '[' && depth == 0) {
      depth = 1, result += c;
      if (pattern.substr(i + 1, 1) == "^") result += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") result += pattern[++i];
    } else if (c == '[' && pattern.substr(i + 1, 1) == ":") {
      const size_t end = std::min(pattern.find(":]", i), pattern.size() - 2);
      result += pattern.substr(i, end + 2 - i), i = end + 1;
    } else if (c == '[') {
      require(pattern.substr(i + 1, 1) != "^",
              "{}: the regular expression {} negates a class in a class, which is not known", where, quoted(pattern));
      ++depth;
    } else if (c == ']' && depth > 0) {
      if (--depth == 0) result += c;
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
  const std::string flat = without_nested_classes(pattern, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(flat.data()), flat.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
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
  for (size_t at = 0; at < text.size();) {
    const int found =
        pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.data, nullptr);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) fail("{}: the regular expression failed on a text: {}", where_, message(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
    if (range[1] <= range[0] || range[1] <= at) return;  // \K may turn matches around
    matches.emplace_back(range[0], range[1]);
    at = range[1];
  }
}

}  // namespace transom::text
