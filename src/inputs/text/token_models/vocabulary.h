// SPDX-License-Identifier: Apache-2.0
// Token texts and their ids: a hash table with open addressing over one block of text, so that large vocabularies load
// fast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom::text {

class Vocabulary {
 public:
  static constexpr int64_t kMaximumId = int64_t{1} << 28;

  void reserve(size_t tokens, size_t bytes);
  // Gives `token` the id; the last of several ids of a token stands, and the last of several tokens of an id.
  void insert(std::string_view token, int64_t id);

  // What text(id) gives from now on, without being found as a token.
  void set_text(int64_t id, std::string_view text);

  int64_t find(std::string_view token) const;  // -1: no such token
  // The same without the tokens that were new when they were inserted after seal(): those added to a finished model.
  int64_t find_own(std::string_view token) const;
  void seal() { own_entries_ = entries_.size(); }
  std::optional<std::string_view> text(int64_t id) const;
  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }  // one more than the largest id
  int64_t count() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t begin = 0, length = 0;
    int64_t id = 0;
    bool found = true;  // by its text
  };
  std::string_view text_of(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  void rehash(size_t slots);
  const Entry* find_entry(std::string_view token) const;

  std::string bytes_;
  std::vector<Entry> entries_;
  size_t own_entries_ = SIZE_MAX;
  std::vector<uint32_t> slots_;  // number of the entry plus one, or 0
  std::vector<int32_t> by_id_;   // number of the entry, or -1
};

}  // namespace transom::text
