// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/token_models/byte_pairs.h"

#include <bit>
#include <queue>

#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}
size_t slot_of(uint64_t key) { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 20); }

}  // namespace

BytePairs::BytePairs(const Json& json, const Vocabulary& vocabulary,
                     const std::vector<std::pair<std::string, std::string>>& merges, const std::string& where)
    : vocabulary_(vocabulary),
      prefix_(string_field(json, "continuing_subword_prefix", where, "")),
      suffix_(string_field(json, "end_of_word_suffix", where, "")),
      fuse_unknown_(bool_field(json, "fuse_unk", where, false)),
      byte_fallback_(bool_field(json, "byte_fallback", where, false)),
      ignore_merges_(bool_field(json, "ignore_merges", where, false)) {
  if (!field(json, "unk_token", where).is_null()) {
    const std::string unknown = string_field(json, "unk_token", where);
    unknown_ = vocabulary.find(unknown);
    require(unknown_ >= 0, "{}.unk_token: the vocabulary has no token {}", where, quoted(unknown));
  }
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  require(merges.size() < (size_t{1} << 30), "{}.merges: expected less than 2^30, found {}", where, merges.size());
  merges_.resize(std::bit_ceil(merges.size() * 2 + 2));
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    // No require(): it would quote the tokens of each of some 300,000 merges.
    if (right.size() < prefix_.size())
      fail("{}.merges[{}]: {} lacks the prefix {}", where, rank, quoted(right), quoted(prefix_));
    joined.assign(left).append(right, prefix_.size());
    const int64_t left_id = vocabulary.find(left), right_id = vocabulary.find(right), id = vocabulary.find(joined);
    if (left_id < 0 || right_id < 0 || id < 0)
      fail("{}.merges[{}]: expected {}, {} and {} in the vocabulary", where, rank, quoted(left), quoted(right),
           quoted(joined));
    insert(key_of(left_id, right_id), static_cast<uint32_t>(rank), id);
  }
}

void BytePairs::insert(uint64_t pair, uint32_t rank, int64_t id) {
  size_t slot = slot_of(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != UINT64_MAX && merges_[slot].pair != pair) slot = (slot + 1) & (merges_.size() - 1);
  merges_[slot] = {pair, rank, static_cast<int32_t>(id)};
}

const BytePairs::Merge* BytePairs::merge_of(int64_t left, int64_t right) const {
  const uint64_t pair = key_of(left, right);
  for (size_t slot = slot_of(pair) & (merges_.size() - 1);; slot = (slot + 1) & (merges_.size() - 1)) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    if (merges_[slot].pair == UINT64_MAX) return nullptr;
  }
}

void BytePairs::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  if (ignore_merges_) {
    if (const int64_t id = vocabulary_.find_own(piece); id >= 0)
      return tokens.push_back({id, 0, static_cast<uint32_t>(piece.size())});
  }
  const size_t first = tokens.size();
  uint32_t position = 0, unknown_length = 0;  // the latter: bytes of unknown characters not yet made a token
  const auto add = [&](int64_t id, size_t length) {
    tokens.push_back({id, position, position + static_cast<uint32_t>(length)});
    position += static_cast<uint32_t>(length);
  };
  const auto flush = [&] {
    if (unknown_length > 0) add(unknown_, unknown_length);
    unknown_length = 0;
  };
  std::string decorated;
  for (size_t i = 0; i < piece.size();) {
    const size_t begin = i;
    next_character(piece, i);
    std::string_view text = piece.substr(begin, i - begin);
    const bool prefixed = begin > 0 && !prefix_.empty(), suffixed = i == piece.size() && !suffix_.empty();
    if (prefixed || suffixed) {
      decorated.assign(prefixed ? prefix_ : "").append(text).append(suffixed ? suffix_ : "");
      text = decorated;
    }
    if (const int64_t id = vocabulary_.find_own(text); id >= 0) {
      flush();
      add(id, i - begin);
      continue;
    }
    if (byte_fallback_) {
      bool all = true;
      for (const char byte : text) all = all && byte_tokens_[static_cast<unsigned char>(byte)] >= 0;
      if (all) {
        for (const char byte : text) add(byte_tokens_[static_cast<unsigned char>(byte)], 1);
        continue;
      }
    }
    if (unknown_ < 0) continue;  // as the tokenizers library does: the character is dropped
    if (!fuse_unknown_) flush();
    unknown_length += static_cast<uint32_t>(i - begin);
  }
  flush();
  join(tokens, first);
  for (size_t i = first; i < tokens.size(); ++i) {  // a prefix or suffix in bytes may reach behind the piece
    tokens[i].begin = std::min(tokens[i].begin, static_cast<uint32_t>(piece.size()));
    tokens[i].end = std::min(tokens[i].end, static_cast<uint32_t>(piece.size()));
  }
}

void BytePairs::join(std::vector<ModelToken>& tokens, size_t first) const {
  struct Candidate {
    uint32_t rank, left;
    int64_t left_id, right_id;
    int32_t id;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  const size_t count = tokens.size() - first;
  if (count < 2) return;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> previous(count), next(count);
  std::vector<Candidate> storage;
  storage.reserve(count * 2);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{}, std::move(storage));
  const auto propose = [&](uint32_t left, uint32_t right) {
    const int64_t a = tokens[first + left].id, b = tokens[first + right].id;
    if (const Merge* merge = merge_of(a, b)) queue.push({merge->rank, left, a, b, merge->id});
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i > 0 ? i - 1 : kNone;
    next[i] = i + 1 < count ? i + 1 : kNone;
    if (i > 0) propose(i - 1, i);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const uint32_t left = best.left, right = next[left];
    if (right == kNone || tokens[first + left].id != best.left_id || tokens[first + right].id != best.right_id)
      continue;
    tokens[first + left].id = best.id;
    tokens[first + left].end = tokens[first + right].end;
    tokens[first + right].id = -1;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    if (previous[left] != kNone) propose(previous[left], left);
    if (next[left] != kNone) propose(left, next[left]);
  }
  std::erase_if(tokens, [](const ModelToken& token) { return token.id < 0; });
}

}  // namespace transom::text
