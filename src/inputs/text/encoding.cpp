// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/encoding.h"

#include <algorithm>

#include "base/error.h"

namespace transom::text {
namespace {

// Calls action(vector of `a`, same vector of `b`) for each vector that has one value a token.
template <typename Action>
void each_vector(Encoding& a, const Encoding& b, const Action& action) {
  action(a.ids, b.ids), action(a.type_ids, b.type_ids), action(a.attention_mask, b.attention_mask);
  action(a.special_tokens_mask, b.special_tokens_mask), action(a.offsets, b.offsets), action(a.tokens, b.tokens);
  action(a.word_ids, b.word_ids), action(a.sequence_ids, b.sequence_ids);
}

Encoding part_of(const Encoding& encoding, size_t begin, size_t end) {
  Encoding part;
  each_vector(part, encoding, [&](auto& to, const auto& from) {
    to.assign(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end));
  });
  return part;
}

void append(Encoding& encoding, const Encoding& other) {
  each_vector(encoding, other, [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); });
}

Encoding joined(const Encoding& a, const Encoding& b) {
  Encoding result = part_of(a, 0, a.size());
  append(result, b);
  return result;
}

}  // namespace

void append_special(Encoding& encoding, int64_t id, std::string_view token, int64_t type_id) {
  encoding.ids.push_back(id), encoding.type_ids.push_back(type_id);
  encoding.attention_mask.push_back(1), encoding.special_tokens_mask.push_back(1);
  encoding.offsets.emplace_back(0, 0), encoding.tokens.emplace_back(token);
  encoding.word_ids.push_back(-1), encoding.sequence_ids.push_back(-1);
}

void merge(Encoding& encoding, const Encoding& other) {
  std::vector<Encoding> overflowing;
  for (const Encoding& part : encoding.overflowing) {
    overflowing.push_back(joined(part, other));
    for (const Encoding& other_part : other.overflowing) overflowing.push_back(joined(part, other_part));
  }
  for (const Encoding& other_part : other.overflowing) overflowing.push_back(joined(encoding, other_part));
  append(encoding, other);
  encoding.overflowing = std::move(overflowing);
}

void truncate(Encoding& encoding, size_t length, size_t stride, Side side, bool keep_overflowing) {
  const size_t size = encoding.size();
  if (length >= size) return;
  std::vector<Encoding> parts;
  if (length == 0) {
    Encoding nothing;
    if (keep_overflowing) nothing.overflowing.push_back(std::move(encoding));
    encoding = std::move(nothing);
    return;
  }
  require(stride < length, "stride: expected less than the {} tokens that truncation leaves, found {}", length, stride);
  const size_t step = length - stride;
  // A text of a megabyte in windows of which each repeats all but one token would be a million of them.
  require(!keep_overflowing || (size - length) / step < kMostWindows,
          "stride: {} tokens in windows of {} of which each repeats {} are more than {} windows; give a smaller stride",
          size, length, stride, kMostWindows);
  if (side == Side::kRight) {
    for (size_t begin = 0;; begin += step) {
      const size_t end = std::min(begin + length, size);
      parts.push_back(part_of(encoding, begin, end));
      if (end == size || !keep_overflowing) break;
    }
  } else {
    for (size_t end = size;; end -= step) {
      const size_t begin = end < length ? 0 : end - length;
      parts.push_back(part_of(encoding, begin, end));
      if (begin == 0 || !keep_overflowing) break;
    }
  }
  encoding = std::move(parts.front());
  parts.erase(parts.begin());
  encoding.overflowing = std::move(parts);
}

void truncate(Encoding& first, Encoding* second, size_t length, const EncodeOptions& options, Side side) {
  const auto stride = static_cast<size_t>(std::max<int64_t>(options.stride, 0));
  const bool keep = options.return_overflowing_tokens;
  const size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= length) return;
  if (options.truncation == Truncation::kLongestFirst) {
    if (second == nullptr) return truncate(first, length, stride, side, keep);
    const bool swapped = first.size() > second->size();
    const size_t shorter = std::min(first.size(), second->size());
    size_t short_length = shorter, long_length = shorter > length ? shorter : std::max(shorter, length - shorter);
    if (short_length + long_length > length) short_length = length / 2, long_length = short_length + length % 2;
    truncate(first, swapped ? long_length : short_length, stride, side, keep);
    truncate(*second, swapped ? short_length : long_length, stride, side, keep);
    return;
  }
  const bool cut_first = options.truncation == Truncation::kOnlyFirst;
  Encoding* target = cut_first ? &first : second;
  require(target != nullptr, "truncation only_second: expected a pair of texts, found one text");
  const size_t remove = total - length;
  require(target->size() > remove, "truncation {}: expected more than the {} tokens to be removed, found {}",
          cut_first ? "only_first" : "only_second", remove, target->size());
  truncate(*target, target->size() - remove, stride, side, keep);
}

void truncate_plainly(Encoding& first, Encoding* second, size_t length, const EncodeOptions& options, Side side) {
  const size_t size = first.size(), pair = second != nullptr ? second->size() : 0;
  if (size + pair <= length) return;
  const size_t remove = size + pair - length;
  const auto cut = [&](Encoding& encoding, size_t count) {
    const size_t kept = encoding.size() - std::min(count, encoding.size());
    const size_t begin = side == Side::kRight ? 0 : encoding.size() - kept;
    encoding = part_of(encoding, begin, begin + kept);
  };
  if (options.truncation == Truncation::kOnlySecond) {
    if (second != nullptr) cut(*second, remove);
  } else if (options.truncation == Truncation::kOnlyFirst || second == nullptr) {
    cut(first, remove);
  } else {
    const size_t surplus = std::min(std::max(size, pair) - std::min(size, pair), remove), both = remove - surplus;
    cut(first, (size > pair ? surplus : 0) + both / 2);
    cut(*second, (size > pair ? 0 : surplus) + both - both / 2);
  }
}

void pad(Encoding& encoding, size_t length, int64_t id, std::string_view token, Side side) {
  for (Encoding& part : encoding.overflowing) pad(part, length, id, token, side);
  if (encoding.size() >= length) return;
  const auto count = static_cast<std::ptrdiff_t>(length - encoding.size());
  Encoding one;
  append_special(one, id, token, 0);
  one.attention_mask[0] = 0;
  each_vector(encoding, one, [&](auto& to, const auto& from) {
    to.insert(side == Side::kRight ? to.end() : to.begin(), static_cast<size_t>(count), from[0]);
  });
}

}  // namespace transom::text
