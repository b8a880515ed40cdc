// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/sentencepiece/sentencepiece.h"

#include <algorithm>
#include <cfloat>
#include <charconv>

#include "base/error.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

using PieceType = SentencePieceModel::PieceType;

constexpr std::string_view kSpace = "▁";
constexpr float kUnknownPenalty = 10;

}  // namespace

SentencePiece::SentencePiece(SentencePieceModel model, const std::string& where)
    : model_(std::move(model)), normal_(model_.pieces.size()), user_defined_(0), reserved_(0) {
  require(model_.kind == SentencePieceModel::Kind::kUnigram || model_.kind == SentencePieceModel::Kind::kCharacter,
          "{}: expected a model of unigrams or characters, found one of type {}, which is known only with a "
          "tokenizer.json",
          where, static_cast<int>(model_.kind));
  if (!model_.character_map.empty()) character_map_.emplace(model_.character_map, where + ": precompiled_charsmap");
  float smallest = FLT_MAX, largest = -FLT_MAX;
  for (const auto& piece : model_.pieces) {
    if (piece.type != PieceType::kNormal) continue;
    smallest = std::min(smallest, piece.score), largest = std::max(largest, piece.score);
  }
  unknown_score_ = smallest - kUnknownPenalty;
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    const auto& [text, score, type] = model_.pieces[id];
    scores_.push_back(score);
    if (text.empty()) continue;
    if (type == PieceType::kNormal || type == PieceType::kUserDefined) normal_.add(text, static_cast<int32_t>(id));
    if (type == PieceType::kControl || type == PieceType::kUnknown || type == PieceType::kByte)
      reserved_.add(text, static_cast<int32_t>(id));
    if (type != PieceType::kUserDefined) continue;
    user_defined_.add(text, static_cast<int32_t>(id));
    // So that it is always chosen.
    scores_.back() = static_cast<double>(static_cast<float>(text.size()) * largest) - 0.1;
  }
}

void SentencePiece::normalize(const AlignedText& text, size_t begin, size_t end, AlignedText& out) const {
  const std::string_view input = text.view(begin, end);
  // The longest thing at a place that is taken as it is or mapped, and its normal form.
  const auto next = [&](size_t at) {
    const std::string_view rest = input.substr(at);
    size_t length = 0;
    user_defined_.find(rest, 0, [&](size_t stop, int32_t) { length = stop; });
    if (length > 0) return std::pair(std::string(rest.substr(0, length)), length);
    std::string_view mapped;
    if (character_map_) {
      character_map_->find(rest, [&](size_t stop, std::string_view to) {
        length = stop, mapped = to;
        return true;
      });
    }
    if (length > 0) return std::pair(well_formed(mapped), length);
    next_character(rest, length);
    return std::pair(std::string(rest.substr(0, length)), length);
  };
  const auto origin = [&](size_t at, size_t length) { return text.original(begin + at, begin + at + length); };
  const auto append = [&](std::string_view part, Span span) {
    if (model_.escape_spaces && part == " ") part = kSpace;
    out.append(part, span);
  };
  const size_t start = out.size();
  size_t at = 0;
  while (model_.remove_extra_spaces && at < input.size()) {
    const auto [form, length] = next(at);
    if (form != " ") break;
    at += length;
  }
  if (at == input.size()) return;
  if (!model_.space_is_suffix && model_.add_dummy_prefix) append(" ", {origin(at, 1).begin, origin(at, 1).begin});
  bool after_space = model_.remove_extra_spaces;
  for (size_t length = 0; at < input.size(); at += length) {
    auto [form, taken] = next(at);
    length = taken;
    std::string_view rest = form;
    while (after_space && rest.starts_with(' ')) rest.remove_prefix(1);
    for (size_t i = 0; i < rest.size(); ++i) append(rest.substr(i, 1), origin(at, length));
    if (!rest.empty()) after_space = rest.ends_with(' ');
    if (!model_.remove_extra_spaces) after_space = false;
  }
  const std::string_view space = model_.escape_spaces ? kSpace : " ";
  while (model_.remove_extra_spaces && out.size() > start && out.view(start, out.size()).ends_with(space)) {
    out.bytes.resize(out.size() - space.size());
    out.origin.resize(out.bytes.size());
  }
  if (model_.space_is_suffix && model_.add_dummy_prefix) append(" ", out.origin.empty() ? Span{} : out.origin.back());
}

std::vector<SentencePiece::Part> SentencePiece::split(std::string_view text) const {
  return model_.kind == SentencePieceModel::Kind::kCharacter ? characters(text) : unigrams(text);
}

std::vector<SentencePiece::Part> SentencePiece::characters(std::string_view text) const {
  std::vector<Part> parts;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin;
    user_defined_.find(text, begin, [&](size_t stop, int32_t) { end = stop; });
    if (end == begin) next_character(text, end);
    const bool unknown = find(text.substr(begin, end - begin)) == model_.unknown_id;
    if (unknown && !parts.empty() && parts.back().unknown && !model_.byte_fallback)
      parts.back().end = static_cast<uint32_t>(end);
    else parts.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), unknown});
  }
  return parts;
}

std::vector<SentencePiece::Part> SentencePiece::unigrams(std::string_view text) const {
  struct Best {
    float score = 0;  // of this width: the library's sums decide between paths
    uint32_t begin = UINT32_MAX;
    bool unknown = false;
  };
  std::vector<Best> best(text.size() + 1);
  for (size_t begin = 0; begin < text.size();) {
    size_t next = begin;
    next_character(text, next);
    const float before = best[begin].score;
    const auto reach = [&](size_t end, double score, bool unknown) {
      Best& target = best[end];
      if (target.begin != UINT32_MAX && score <= static_cast<double>(target.score)) return;
      target = {static_cast<float>(score), static_cast<uint32_t>(begin), unknown};
    };
    bool single = false;
    normal_.find(text, begin, [&](size_t end, int32_t id) {
      const auto& piece = model_.pieces[static_cast<size_t>(id)];
      const double score = piece.type == PieceType::kUserDefined
                               ? scores_[static_cast<size_t>(id)] + static_cast<double>(before)
                               : static_cast<double>(piece.score + before);
      reach(end, score, false);
      single = single || end == next;
    });
    if (!single) reach(next, static_cast<double>(unknown_score_ + before), true);
    begin = next;
  }
  std::vector<Part> parts;
  for (auto end = static_cast<uint32_t>(text.size()); end > 0;) {
    const Best& node = best[end];
    if (node.unknown && !parts.empty() && parts.back().unknown && !model_.byte_fallback)
      parts.back().begin = node.begin;
    else parts.push_back({node.begin, end, node.unknown});
    end = node.begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

int32_t SentencePiece::find(std::string_view piece) const {
  auto result = static_cast<int32_t>(model_.unknown_id);
  const auto whole = [&](size_t end, int32_t id) {
    if (end == piece.size()) result = id;
  };
  normal_.find(piece, 0, whole);
  reserved_.find(piece, 0, whole);
  return result;
}

std::string SentencePiece::decode(const std::vector<std::string>& pieces) const {
  std::string result, bytes;
  bool at_front = true, space_seen = false;
  for (const std::string& piece : pieces) {
    const auto id = static_cast<size_t>(find(piece));
    const PieceType type = model_.pieces[id].type;
    unsigned value = 0;
    if (type == PieceType::kByte && piece.size() == 6 &&
        std::from_chars(piece.data() + 3, piece.data() + 5, value, 16).ec == std::errc()) {
      bytes.push_back(static_cast<char>(static_cast<unsigned char>(value)));
      continue;
    }
    result += well_formed(bytes);
    bytes.clear();
    if (space_seen || !result.empty()) at_front = false;
    space_seen = false;
    if (type == PieceType::kControl) continue;
    if (type == PieceType::kUnknown) {
      result += piece == model_.pieces[id].text ? model_.unknown_surface : piece;
      continue;
    }
    std::string_view text = piece;
    if (at_front && (model_.add_dummy_prefix || model_.remove_extra_spaces) && text.starts_with(kSpace)) {
      text.remove_prefix(kSpace.size());
      space_seen = !model_.remove_extra_spaces;
    }
    result += replace_all(std::string(text), kSpace, " ");
  }
  return result + well_formed(bytes);
}

}  // namespace transom::text
