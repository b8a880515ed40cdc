// SPDX-License-Identifier: Apache-2.0
#include "text/windows.h"

#include <algorithm>

namespace transom::text {
namespace {

// Calls visit(member of a, member of b) for every sequence of an encoding.
template <typename Visit>
void for_each_sequence(Encoding& to, const Encoding& from, Visit&& visit) {
  visit(to.ids, from.ids);
  visit(to.type_ids, from.type_ids);
  visit(to.attention_mask, from.attention_mask);
  visit(to.special_tokens_mask, from.special_tokens_mask);
  visit(to.offsets, from.offsets);
  visit(to.tokens, from.tokens);
  visit(to.word_ids, from.word_ids);
  visit(to.sequence_ids, from.sequence_ids);
}

}  // namespace

Encoding part_of(const Encoding& encoding, size_t begin, size_t end) {
  Encoding part;
  for_each_sequence(part, encoding, [&](auto& to, const auto& from) {
    to.assign(from.begin() + static_cast<ptrdiff_t>(begin), from.begin() + static_cast<ptrdiff_t>(end));
  });
  return part;
}

void truncate(Encoding& encoding, size_t length, size_t stride, bool left) {
  const size_t size = encoding.size();
  if (size <= length) return;
  if (length == 0) {
    Encoding all = std::move(encoding);
    encoding = Encoding();
    encoding.overflowing.push_back(std::move(all));
    return;
  }
  const size_t step = length - std::min(stride, length - 1);
  std::vector<Encoding> windows;
  if (left) {
    for (size_t end = size;; end -= step) {
      windows.push_back(part_of(encoding, end > length ? end - length : 0, end));
      if (end <= length) break;
    }
  } else {
    for (size_t begin = 0;; begin += step) {
      windows.push_back(part_of(encoding, begin, std::min(size, begin + length)));
      if (begin + length >= size) break;
    }
  }
  encoding = std::move(windows[0]);
  encoding.overflowing.assign(std::make_move_iterator(windows.begin() + 1), std::make_move_iterator(windows.end()));
}

void pad(Encoding& encoding, size_t length, const PaddingToken& padding) {
  for (Encoding& other : encoding.overflowing) pad(other, length, padding);
  if (encoding.size() >= length) return;
  const size_t count = length - encoding.size();
  Encoding filling;
  filling.ids.assign(count, padding.id);
  filling.type_ids.assign(count, padding.type_id);
  filling.attention_mask.assign(count, 0);
  filling.special_tokens_mask.assign(count, 1);
  filling.offsets.assign(count, {0, 0});
  filling.tokens.assign(count, padding.token);
  filling.word_ids.assign(count, -1);
  filling.sequence_ids.assign(count, -1);
  for_each_sequence(encoding, filling, [&](auto& to, const auto& from) {
    to.insert(padding.left ? to.begin() : to.end(), from.begin(), from.end());
  });
}

}  // namespace transom::text
