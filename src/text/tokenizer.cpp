// SPDX-License-Identifier: Apache-2.0
#include "transom/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "text/decoders.h"
#include "text/tokenizer_state.h"
#include "text/unicode.h"

namespace transom {

int64_t Tokenizer::State::id_of(std::string_view token) const {
  if (const text::AddedToken* found = added.by_content(token)) return found->id;
  return model->id_of(token);
}

std::string Tokenizer::State::token_of(int64_t id) const {
  if (const text::AddedToken* found = added.by_id(id)) return found->content;
  return model->token_of(id);
}

namespace {

// Numbers of characters before each byte of a text: offsets in bytes to offsets in characters.
class CharacterIndex {
 public:
  explicit CharacterIndex(std::string_view text) : ascii_(text::is_ascii(text)) {
    if (ascii_) return;
    count_.reserve(text.size() + 1);
    int64_t characters = 0;
    for (const char c : text) {
      if (!text::is_continuation(c)) ++characters;
      count_.push_back(characters - 1);
    }
    count_.push_back(characters);
  }
  int64_t operator()(uint32_t byte) const { return ascii_ ? byte : count_[byte]; }

 private:
  bool ascii_;
  std::vector<int64_t> count_;
};

}  // namespace

Encoding Tokenizer::State::encode_alone(std::string_view given) const {
  std::string repaired;
  if (!text::is_valid_utf8(given)) given = repaired = text::repaired_utf8(given);
  if (given.size() >= UINT32_MAX) fail("a text of {} bytes is too long for a tokenizer", given.size());
  thread_local text::AlignedText work;
  work.reset(given);
  added.find_in_original(work);
  if (normalizer) normalizer->normalize(work);
  added.find_in_normalized(work);
  if (pre_tokenizer) pre_tokenizer->split(work);

  Encoding result;
  const CharacterIndex characters(given);
  std::vector<text::ModelToken> tokens;
  int64_t word = 0;
  const auto add = [&](int64_t id, const std::string& token, text::Span bytes, bool special) {
    result.ids.push_back(id);
    result.type_ids.push_back(0);
    result.attention_mask.push_back(1);
    result.special_tokens_mask.push_back(special);
    result.offsets.emplace_back(characters(bytes.begin), characters(bytes.end));
    result.tokens.push_back(token);
    result.word_ids.push_back(word);
    result.sequence_ids.push_back(0);
  };
  for (const text::Piece& piece : work.pieces()) {
    if (piece.is_token()) {
      // A token that the text itself spells is no special token of the template.
      add(piece.token, token_of(piece.token), work.source(piece.begin, piece.end), false);
    } else {
      tokens.clear();
      model->tokenize(work.view(piece), tokens);
      for (const text::ModelToken& token : tokens)
        add(token.id, model->token_of(token.id), work.source(piece.begin + token.begin, piece.begin + token.end),
            false);
    }
    ++word;
  }
  return result;
}

namespace {

size_t limit_of(const Tokenizer& tokenizer, const EncodeOptions& options) {
  const int64_t limit = options.max_length > 0 ? options.max_length : tokenizer.model_max_length().value_or(0);
  return static_cast<size_t>(limit);
}

// Cuts text and pair so that with `added` special tokens they have at most `limit`.
void truncate_both(Encoding& first, Encoding* second, size_t limit, size_t added, const EncodeOptions& options,
                   bool left) {
  const size_t total = first.size() + (second ? second->size() : 0) + added;
  if (total <= limit) return;
  const size_t excess = total - limit, stride = static_cast<size_t>(options.stride);
  const auto cut = [&](Encoding& encoding, std::string_view which) {
    if (encoding.size() <= excess)
      fail("truncation of {} text alone cannot bring {} tokens to {}: it has only {}", which, total, limit,
           encoding.size());
    text::truncate(encoding, encoding.size() - excess, stride, left);
  };
  if (options.truncation == Truncation::kOnlyFirst || (options.truncation == Truncation::kLongestFirst && !second)) {
    if (options.truncation == Truncation::kOnlyFirst) cut(first, "the first");
    else text::truncate(first, first.size() > excess ? first.size() - excess : 0, stride, left);
  } else if (options.truncation == Truncation::kOnlySecond) {
    if (!second) fail("truncation only_second: there is no second text");
    cut(*second, "the second");
  } else {
    // The longer one gives first; what both must give is shared, the second getting the odd token.
    const size_t room = limit > added ? limit - added : 0;
    size_t longer = std::max(first.size(), second->size()), shorter = std::min(first.size(), second->size());
    if (shorter > room) shorter = room / 2, longer = room - shorter;
    else longer = std::max(shorter, room - shorter);
    if (shorter + longer > room) shorter = room / 2, longer = shorter + room % 2;
    const bool swapped = first.size() > second->size();
    text::truncate(first, swapped ? longer : shorter, stride, left);
    text::truncate(*second, swapped ? shorter : longer, stride, left);
  }
}

}  // namespace

Encoding Tokenizer::encode(std::string_view given, std::optional<std::string_view> given_pair,
                           const EncodeOptions& options) const {
  const State& state = *state_;
  Encoding first = state.encode_alone(given);
  std::optional<Encoding> second;
  if (given_pair) second = state.encode_alone(*given_pair);
  const bool special = options.add_special_tokens && state.post_processor;
  const size_t added = special ? state.post_processor->added_tokens(second.has_value()) : 0;
  const size_t limit = limit_of(*this, options);
  if (options.truncation != Truncation::kNone && limit > 0)
    truncate_both(first, second ? &*second : nullptr, limit, added, options, state.truncates_left);

  const auto joined = [&](const Encoding& a, const Encoding* b) {
    if (special) return state.post_processor->process(a, b);
    Encoding result;
    text::append_sequence(result, a, 0, 0);
    if (b) text::append_sequence(result, *b, state.post_processor ? state.post_processor->pair_type_id() : 1, 1);
    return result;
  };
  Encoding result = joined(first, second ? &*second : nullptr);
  if (options.return_overflowing_tokens) {
    for (const Encoding& window : first.overflowing) {
      result.overflowing.push_back(joined(window, second ? &*second : nullptr));
      if (second)
        for (const Encoding& other : second->overflowing) result.overflowing.push_back(joined(window, &other));
    }
    if (second)
      for (const Encoding& other : second->overflowing) result.overflowing.push_back(joined(first, &other));
  }
  if (options.padding != Padding::kNone) {
    size_t length = options.padding == Padding::kMaxLength ? limit : 0;
    if (length == 0) {
      length = result.size();
      for (const Encoding& other : result.overflowing) length = std::max(length, other.size());
    }
    if (const auto multiple = static_cast<size_t>(options.pad_to_multiple_of); multiple > 0)
      length = (length + multiple - 1) / multiple * multiple;
    text::pad(result, length, {pad_token_id(), state.pad_type_id, special_token("pad").value_or(""), state.pads_left});
  }
  return result;
}

std::vector<Encoding> Tokenizer::encode_batch(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& texts, const EncodeOptions& options) const {
  EncodeOptions each = options;
  if (options.padding == Padding::kLongest) each.padding = Padding::kNone;
  std::vector<Encoding> result(texts.size());
  parallel_for(texts.size(), [&](size_t i) {
    const auto& [first, second] = texts[i];
    result[i] = encode(first, second ? std::optional<std::string_view>(*second) : std::nullopt, each);
  });
  if (options.padding != Padding::kLongest) return result;
  size_t length = 0;
  for (const Encoding& encoding : result) {
    length = std::max(length, encoding.size());
    for (const Encoding& other : encoding.overflowing) length = std::max(length, other.size());
  }
  if (const auto multiple = static_cast<size_t>(options.pad_to_multiple_of); multiple > 0)
    length = (length + multiple - 1) / multiple * multiple;
  for (Encoding& encoding : result)
    text::pad(encoding, length,
              {pad_token_id(), state_->pad_type_id, special_token("pad").value_or(""), state_->pads_left});
  return result;
}

Encoding Tokenizer::encode_words(const std::vector<std::string>& words, const EncodeOptions& options) const {
  const State& state = *state_;
  Encoding all;
  for (size_t i = 0; i < words.size(); ++i) {
    Encoding one = state.encode_alone(words[i]);
    std::fill(one.word_ids.begin(), one.word_ids.end(), static_cast<int64_t>(i));
    text::append_sequence(all, one, 0, 0);
  }
  const bool special = options.add_special_tokens && state.post_processor;
  const size_t limit = limit_of(*this, options), added = special ? state.post_processor->added_tokens(false) : 0;
  if (options.truncation != Truncation::kNone && limit > 0)
    truncate_both(all, nullptr, limit, added, options, state.truncates_left);
  Encoding result = special ? state.post_processor->process(all, nullptr) : std::move(all);
  if (options.padding == Padding::kMaxLength)
    text::pad(result, limit, {pad_token_id(), state.pad_type_id, special_token("pad").value_or(""), state.pads_left});
  return result;
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens,
                              std::optional<bool> clean_up) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    const text::AddedToken* added = state_->added.by_id(id);
    if (skip_special_tokens && added && added->special) continue;
    if (std::string token = state_->token_of(id); !token.empty()) tokens.push_back(std::move(token));
  }
  std::string result;
  if (state_->decoder) {
    for (const std::string& part : state_->decoder->decode(std::move(tokens))) result += part;
  } else {
    for (const std::string& token : tokens) result += (result.empty() ? "" : " ") + token;
  }
  return clean_up.value_or(state_->clean_up) ? text::cleaned_up(std::move(result)) : result;
}

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const int64_t id = state_->id_of(token);
  return id < 0 ? std::nullopt : std::optional(id);
}
std::string Tokenizer::id_to_token(int64_t id) const { return state_->token_of(id); }

int64_t Tokenizer::vocab_size() const {
  int64_t size = state_->model->size();
  for (const text::AddedToken& token : state_->added.tokens()) size = std::max(size, token.id + 1);
  return size;
}

std::optional<std::string> Tokenizer::special_token(std::string_view role) const {
  const auto found = state_->special.find(role);
  return found == state_->special.end() ? std::nullopt : std::optional(found->second);
}
std::optional<int64_t> Tokenizer::special_token_id(std::string_view role) const {
  const auto token = special_token(role);
  return token ? token_to_id(*token) : std::nullopt;
}
std::optional<int64_t> Tokenizer::model_max_length() const { return state_->max_length; }
const std::vector<std::string>& Tokenizer::model_input_names() const { return state_->input_names; }
bool Tokenizer::pads_left() const { return state_->pads_left; }

}  // namespace transom
