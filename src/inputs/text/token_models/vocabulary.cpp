// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/token_models/vocabulary.h"

#include <bit>
#include <functional>

#include "base/error.h"

namespace transom::text {

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens), by_id_.reserve(tokens), bytes_.reserve(bytes);
  if (tokens * 2 > slots_.size()) rehash(std::bit_ceil(tokens * 2 + 16));
}

void Vocabulary::rehash(size_t slots) {
  slots_.assign(slots, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].found) continue;
    size_t slot = entries_[i].hash & (slots - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

void Vocabulary::insert(std::string_view token, int64_t id) {
  if (id < 0 || id >= kMaximumId || id > 64 * (static_cast<int64_t>(entries_.size()) + (int64_t{1} << 20))) {
    fail("token {}: expected an id from 0 to a little more than the size of the vocabulary, found {}", quoted(token),
         id);
  }
  require(bytes_.size() + token.size() < UINT32_MAX, "vocabulary: the tokens are longer than 4 GiB together");
  if ((entries_.size() + 1) * 2 > slots_.size()) rehash(std::bit_ceil(entries_.size() * 4 + 16));
  const uint64_t hash = std::hash<std::string_view>{}(token);
  size_t slot = hash & (slots_.size() - 1);
  uint32_t number = 0;
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && text_of(entry) == token) {
      number = slots_[slot];
      break;
    }
  }
  if (number == 0) {
    entries_.push_back({hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), id, true});
    bytes_.append(token);
    number = static_cast<uint32_t>(entries_.size());
    slots_[slot] = number;
  } else {
    entries_[number - 1].id = id;
  }
  const auto index = static_cast<size_t>(id);
  if (index >= by_id_.size()) by_id_.resize(index + 1, -1);
  by_id_[index] = static_cast<int32_t>(number - 1);
}

void Vocabulary::set_text(int64_t id, std::string_view text) {
  if (id < 0 || id >= size() || bytes_.size() + text.size() >= UINT32_MAX) return;
  by_id_[static_cast<size_t>(id)] = static_cast<int32_t>(entries_.size());
  entries_.push_back({0, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size()), id, false});
  bytes_.append(text);
}

const Vocabulary::Entry* Vocabulary::find_entry(std::string_view token) const {
  if (slots_.empty()) return nullptr;
  const uint64_t hash = std::hash<std::string_view>{}(token);
  for (size_t slot = hash & (slots_.size() - 1); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && text_of(entry) == token) return &entry;
  }
  return nullptr;
}

int64_t Vocabulary::find(std::string_view token) const {
  const Entry* entry = find_entry(token);
  return entry != nullptr ? entry->id : -1;
}

int64_t Vocabulary::find_own(std::string_view token) const {
  const Entry* entry = find_entry(token);
  return entry != nullptr && static_cast<size_t>(entry - entries_.data()) < own_entries_ ? entry->id : -1;
}

std::optional<std::string_view> Vocabulary::text(int64_t id) const {
  if (id < 0 || id >= size() || by_id_[static_cast<size_t>(id)] < 0) return std::nullopt;
  return text_of(entries_[static_cast<size_t>(by_id_[static_cast<size_t>(id)])]);
}

}  // namespace transom::text
