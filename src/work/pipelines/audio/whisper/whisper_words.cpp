// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper/whisper_words.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

constexpr std::string_view kBroken = "\uFFFD";
constexpr std::string_view kBefore = "\"'“¡¿([{-", kBehind = "\"'.。,，!！?？:：”)]}、";
constexpr std::string_view kAscii = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

std::string_view without_spaces_around(std::string_view all) {
  size_t begin = 0, end = all.size();
  for (size_t next = begin; next < end && text::is_space(text::next_character(all, next));) begin = next;
  while (end > begin) {
    const size_t last = text::previous_boundary(all, end);
    size_t place = last;
    if (!text::is_space(text::next_character(all, place))) break;
    end = last;
  }
  return all.substr(begin, end - begin);
}

// The place of the first character that is not whole, in characters; npos: all are.
size_t broken_at(std::string_view written) {
  const size_t place = written.find(kBroken);
  return place == written.npos ? place : text::count_characters(written.substr(0, place));
}

// Tokens together up to where they end with a whole character.
std::vector<WhisperWord> whole_characters(const Tokenizer& tokenizer, const TokenIds& tokens) {
  const std::u32string all = text::characters(tokenizer.decode(tokens));
  std::vector<WhisperWord> words;
  TokenIds pending;
  size_t given = 0, first = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    pending.push_back(tokens[i]);
    std::string written = tokenizer.decode(pending);
    const size_t broken = broken_at(written);
    // A character that stays broken in the whole text is what was written.
    if (broken != written.npos && given + broken < all.size() && all[given + broken] != U'\uFFFD') continue;
    given += text::count_characters(written);
    words.push_back({std::move(written), first, i});
    pending.clear();
    first = i + 1;
  }
  return words;
}

bool is_part_of(std::string_view part, std::string_view all) { return all.find(part) != all.npos; }

std::vector<WhisperWord> between_spaces(const Tokenizer& tokenizer, const TokenIds& tokens) {
  const int64_t special = tokenizer.eos_token_id().value_or(tokenizer.vocab_size());
  std::vector<WhisperWord> words;
  for (WhisperWord& part : whole_characters(tokenizer, tokens)) {
    const bool begins = words.empty() || tokens[part.first] >= special || part.text.starts_with(' ') ||
                        is_part_of(without_spaces_around(part.text), kAscii);
    if (begins) {
      words.push_back(std::move(part));
    } else {
      words.back().text += part.text;
      words.back().last = part.last;
    }
  }
  return words;
}

// Marks that open are of the word behind them, marks that close of the word before them.
void join_punctuation(std::vector<WhisperWord>& words) {
  const auto join = [](WhisperWord& left, WhisperWord& right, WhisperWord& into) {
    const size_t first = left.first, last = right.last;
    std::string text = left.text + right.text;
    left.text.clear(), right.text.clear();
    into = {std::move(text), first, last};
  };
  for (size_t i = words.size(), behind = words.size(); i-- > 0;) {
    if (behind < words.size() && words[i].text.starts_with(' ') &&
        is_part_of(without_spaces_around(words[i].text), kBefore))
      join(words[i], words[behind], words[behind]);
    else behind = i;
  }
  size_t before = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[before].text.ends_with(' ') && is_part_of(words[i].text, kBehind)) {
      if (!words[i].text.empty()) join(words[before], words[i], words[before]);
    } else {
      before = i;
    }
  }
  std::erase_if(words, [](const WhisperWord& word) { return word.text.empty(); });
}

}  // namespace

std::vector<WhisperWord> whisper_words(const Tokenizer& tokenizer, const TokenIds& tokens,
                                       const std::string& language) {
  static constexpr std::array<std::string_view, 6> kUnspaced = {"chinese", "japanese", "thai",
                                                                "lao",     "myanmar",  "cantonese"};
  const bool unspaced = std::find(kUnspaced.begin(), kUnspaced.end(), language) != kUnspaced.end();
  std::vector<WhisperWord> words = unspaced ? whole_characters(tokenizer, tokens) : between_spaces(tokenizer, tokens);
  join_punctuation(words);
  return words;
}

}  // namespace transom
