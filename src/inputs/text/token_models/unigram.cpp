// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/token_models/unigram.h"

#include <algorithm>

#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

constexpr double kUnknownPenalty = 10;

}  // namespace

Unigram::Unigram(const Json& json, const Vocabulary& vocabulary, const std::vector<double>& scores,
                 const std::string& where)
    : vocabulary_(vocabulary),
      scores_(scores),
      trie_(scores.size()),
      byte_fallback_(bool_field(json, "byte_fallback", where, false)),
      where_(where) {
  require(!scores.empty(), "{}.vocab: expected an array of [token, score]", where);
  unknown_ = integer_field(json, "unk_id", where, -1);
  require(unknown_ >= -1 && unknown_ < static_cast<int64_t>(scores.size()),
          "{}.unk_id: expected an id below {}, found {}", where, scores.size(), unknown_);
  unknown_score_ = *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty;
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  for (size_t id = 0; id < scores.size(); ++id) {
    const auto token = vocabulary.text(static_cast<int64_t>(id));
    if (!token || token->empty()) continue;
    trie_.add(*token, static_cast<int32_t>(vocabulary.find(*token)));
  }
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
    const double before = best[begin].score;
    trie_.find(piece, begin, [&](size_t end, int32_t id) {
      reach(begin, end, id, before + scores_[static_cast<size_t>(id)]);
      single = single || end == next;
    });
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
