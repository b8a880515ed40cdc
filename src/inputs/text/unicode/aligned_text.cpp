// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/aligned_text.h"

#include "inputs/text/unicode/unicode.h"

namespace transom::text {

AlignedText::AlignedText(std::string_view text, uint32_t first) : bytes(text) {
  origin.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++first) {
    const size_t begin = i;
    next_character(text, i);
    for (size_t byte = begin; byte < i; ++byte) origin.push_back({first, first + 1});
  }
}

void AlignedText::append(char32_t c, Span span) {
  append_character(bytes, c);
  if (bytes.size() > kMaximumTextSize) check_text_size(bytes.size());
  while (origin.size() < bytes.size()) origin.push_back(span);  // faster than resize() for these few
}

void AlignedText::append(std::string_view text, Span span) {
  check_text_size(bytes.size() + text.size());
  bytes.append(text);
  origin.resize(bytes.size(), span);
}

void AlignedText::append(const AlignedText& other) {
  check_text_size(bytes.size() + other.size());
  bytes.append(other.bytes);
  origin.insert(origin.end(), other.origin.begin(), other.origin.end());
}

void AlignedText::append(const AlignedText& other, size_t begin, size_t end) {
  check_text_size(bytes.size() + end - begin);
  bytes.append(other.view(begin, end));
  origin.insert(origin.end(), other.origin.begin() + static_cast<std::ptrdiff_t>(begin),
                other.origin.begin() + static_cast<std::ptrdiff_t>(end));
}

void AlignedText::transform(const std::vector<CharacterChange>& changes) {
  AlignedText out;
  out.bytes.reserve(size()), out.origin.reserve(size());
  size_t at = 0;
  for (const auto& [c, change] : changes) {
    if (change > 0) {
      out.append(c, at > 0 ? origin[at - 1] : Span{});
      continue;
    }
    out.append(c, at < size() ? origin[at] : Span{});
    for (int i = change; i <= 0 && at < size(); ++i) next_character(bytes, at);
  }
  *this = std::move(out);
}

Span AlignedText::original(size_t begin, size_t end) const {
  if (begin < end) return {origin[begin].begin, origin[end - 1].end};
  const uint32_t at = begin > 0 ? origin[begin - 1].end : 0;
  return {at, at};
}

}  // namespace transom::text
