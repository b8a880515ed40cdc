// SPDX-License-Identifier: Apache-2.0
#include "text/unigram.h"

#include <algorithm>
#include <bit>

#include "text/fields.h"
#include "text/unicode.h"

namespace transom::text {
namespace {

constexpr double kUnknownPenalty = 10;

uint64_t key_of(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }
size_t slot_of(uint64_t key) { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 24); }

}  // namespace

Unigram::Unigram(const Json& json, const Vocabulary& vocabulary, const std::vector<double>& scores,
                 const std::string& where)
    : vocabulary_(vocabulary),
      scores_(scores),
      byte_fallback_(bool_field(json, "byte_fallback", where, false)),
      where_(where) {
  require(!scores.empty(), "{}.vocab: expected an array of [token, score]", where);
  unknown_ = integer_field(json, "unk_id", where, -1);
  require(unknown_ >= -1 && unknown_ < static_cast<int64_t>(scores.size()),
          "{}.unk_id: expected an id below {}, found {}", where, scores.size(), unknown_);
  unknown_score_ = *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty;
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  size_t bytes = 0;
  for (size_t id = 0; id < scores.size(); ++id) bytes += vocabulary.text(static_cast<int64_t>(id)).value_or("").size();
  require(bytes < UINT32_MAX / 4, "{}.vocab: the tokens are longer than 1 GiB together", where);
  edges_.resize(std::bit_ceil(scores.size() * 4 + 16));
  node_id_.reserve(scores.size() * 2);
  node_id_.push_back(-1);
  for (size_t id = 0; id < scores.size(); ++id) {
    const auto token = vocabulary.text(static_cast<int64_t>(id));
    if (!token || token->empty()) continue;
    add(*token, static_cast<int32_t>(vocabulary.find(*token)));
  }
}

uint32_t& Unigram::child(uint32_t node, char byte) {
  if (node_id_.size() * 2 > edges_.size()) {
    std::vector<Edge> old(edges_.size() * 2);
    old.swap(edges_);
    for (const Edge& edge : old) {
      if (edge.from == UINT64_MAX) continue;
      size_t slot = slot_of(edge.from) & (edges_.size() - 1);
      while (edges_[slot].from != UINT64_MAX) slot = (slot + 1) & (edges_.size() - 1);
      edges_[slot] = edge;
    }
  }
  const uint64_t key = key_of(node, byte);
  size_t slot = slot_of(key) & (edges_.size() - 1);
  while (edges_[slot].from != UINT64_MAX && edges_[slot].from != key) slot = (slot + 1) & (edges_.size() - 1);
  edges_[slot].from = key;
  return edges_[slot].to;
}

uint32_t Unigram::find_child(uint32_t node, char byte) const {
  const uint64_t key = key_of(node, byte);
  for (size_t slot = slot_of(key) & (edges_.size() - 1);; slot = (slot + 1) & (edges_.size() - 1)) {
    if (edges_[slot].from == key) return edges_[slot].to;
    if (edges_[slot].from == UINT64_MAX) return 0;
  }
}

void Unigram::add(std::string_view token, int32_t id) {
  uint32_t node = 0;
  for (const char byte : token) {
    uint32_t& next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(node_id_.size());
      node_id_.push_back(-1);
    }
    node = next;
  }
  node_id_[node] = id;
}

void Unigram::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  struct Best {
    double score = 0;
    uint32_t begin = UINT32_MAX;  // this value: not reached
    int64_t id = 0;
  };
  std::vector<Best> best(piece.size() + 1);  // of the paths that end at a byte
  const auto reach = [&](size_t begin, size_t end, int64_t id, double score) {
    if (best[end].begin == UINT32_MAX || score > best[end].score) best[end] = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < piece.size();) {
    size_t next = begin;
    next_character(piece, next);
    bool single = false;
    uint32_t node = 0;
    for (size_t end = begin; end < piece.size();) {
      node = find_child(node, piece[end++]);
      if (node == 0) break;
      const int32_t id = node_id_[node];
      if (id < 0) continue;
      reach(begin, end, id, best[begin].score + scores_[static_cast<size_t>(id)]);
      single = single || end == next;
    }
    if (!single) {
      require(unknown_ >= 0, "{}: no token covers {} and there is no unk_id", where_,
              quoted(piece.substr(begin, next - begin)));
      reach(begin, next, unknown_, best[begin].score + unknown_score_);
    }
    begin = next;
  }
  const size_t first = tokens.size();
  for (size_t end = piece.size(); end > 0;) {
    const Best& node = best[end];
    const bool unknown = node.id == unknown_;
    if (unknown && tokens.size() > first && tokens.back().id == unknown_) {
      tokens.back().begin = node.begin;
    } else {
      tokens.push_back({node.id, node.begin, static_cast<uint32_t>(end)});
    }
    end = node.begin;
  }
  std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
  if (!byte_fallback_) return;
  std::vector<ModelToken> result;
  for (size_t i = first; i < tokens.size(); ++i) {
    const ModelToken token = tokens[i];
    const std::string_view text = piece.substr(token.begin, token.end - token.begin);
    const bool bytes = token.id == unknown_ && vocabulary_.find(text) < 0 &&
                       std::all_of(text.begin(), text.end(),
                                   [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)] >= 0; });
    if (!bytes) {
      result.push_back(token);
      continue;
    }
    for (const char byte : text)
      result.push_back({byte_tokens_[static_cast<unsigned char>(byte)], token.begin, token.end});
  }
  tokens.resize(first);
  tokens.insert(tokens.end(), result.begin(), result.end());
}

}  // namespace transom::text
