// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/pattern.h"

#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {

Pattern::Pattern(const Json& json, const std::string& where) {
  if (json.is_string() || !field(json, "String", where).is_null()) {
    string_ = json.is_string() ? json.get<std::string>() : nonempty_field(json, "String", where);
    require(!string_.empty(), "{}: expected characters, found an empty string", where);
  } else {
    regex_ = std::make_shared<Regex>(nonempty_field(json, "Regex", where), where);
  }
}

void Pattern::find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  matches.clear();
  for (size_t at = text.find(string_); at != std::string_view::npos; at = text.find(string_, at + string_.size())) {
    matches.emplace_back(at, at + string_.size());
  }
}

void Pattern::replace(AlignedText& text, std::string_view content) const {
  std::vector<std::pair<size_t, size_t>> matches;
  find_all(text.bytes, matches);
  if (matches.empty()) return;
  AlignedText out;
  size_t last = 0;
  for (const auto& [begin, end] : matches) {
    out.append(text, last, begin);
    out.append(content, end > 0 ? text.origin[end - 1] : Span{});
    last = end;
  }
  out.append(text, last, text.size());
  text = std::move(out);
}

std::string Pattern::replaced(std::string_view text, std::string_view content) const {
  std::vector<std::pair<size_t, size_t>> matches;
  find_all(text, matches);
  std::string out;
  size_t last = 0;
  for (const auto& [begin, end] : matches) {
    out.append(text.substr(last, begin - last)).append(content);
    check_text_size(out.size());
    last = end;
  }
  return out.append(text.substr(last));
}

}  // namespace transom::text
