// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer.json (Oniguruma's syntax there), run by PCRE2 with Unicode properties.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::text {

class Regex {
 public:
  // `where` names the pattern in errors. Safe to use from several threads.
  Regex(const std::string& pattern, std::string where);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // The matches in `text` (well-formed UTF-8), as bytes begin..end, from left to right. A match may be empty, but not
  // at the end of the one before it.
  void find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string where_;
};

}  // namespace transom::text
