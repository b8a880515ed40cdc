// SPDX-License-Identifier: Apache-2.0
// The "pattern" of a component: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/unicode/aligned_text.h"
#include "inputs/text/unicode/regex.h"

namespace transom::text {

class Pattern {
 public:
  Pattern(const Json& json, const std::string& where);

  void find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const;
  // Every match becomes `content`, which stands for the match's last character.
  void replace(AlignedText& text, std::string_view content) const;
  std::string replaced(std::string_view text, std::string_view content) const;

 private:
  std::string string_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace transom::text
