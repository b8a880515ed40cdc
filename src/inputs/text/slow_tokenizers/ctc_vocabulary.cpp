// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/ctc_vocabulary.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

// A token of tokenizer_config.json: a string, or an object with its content.
void set_token(const Json& config, const char* field, std::string& token) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return;
  if (found->is_string()) token = found->get<std::string>();
  else if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    token = (*found)["content"].get<std::string>();
  else fail("tokenizer_config.json: {}: expected a string, found {}", field, quoted(dump_json(*found)));
}

char upper_case(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

CtcVocabulary CtcVocabulary::read(const std::filesystem::path& directory) {
  CtcVocabulary result;
  Json vocabulary = read_json(directory / "vocab.json");
  Json config = Json::object();
  if (path_exists(directory / "tokenizer_config.json")) config = read_json(directory / "tokenizer_config.json");
  set_token(config, "pad_token", result.pad_);
  set_token(config, "unk_token", result.unknown_);
  set_token(config, "word_delimiter_token", result.delimiter_);
  set_token(config, "replace_word_delimiter_char", result.space_);
  if (config.contains("do_lower_case") && config["do_lower_case"].is_boolean())
    result.lower_case_ = config["do_lower_case"].get<bool>();
  // A vocabulary of several languages has one for each.
  if (config.contains("target_lang") && config["target_lang"].is_string()) {
    const std::string language = config["target_lang"].get<std::string>();
    if (!vocabulary.contains(language) || !vocabulary[language].is_object())
      fail("{}/vocab.json: has no vocabulary of target_lang {}", directory.string(), quoted(language));
    vocabulary = Json(vocabulary[language]);
  }
  if (!vocabulary.is_object()) fail("{}/vocab.json: expected an object of tokens", directory.string());
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > 10'000'000)
      fail("{}/vocab.json: {}: expected an id from 0, found {}", directory.string(), quoted(token),
           quoted(dump_json(id)));
    const auto place = static_cast<size_t>(id.get<int64_t>());
    if (place >= result.tokens_.size()) result.tokens_.resize(place + 1);
    result.tokens_[place] = token;
  }
  return result;
}

CtcVocabulary CtcVocabulary::of_texts(std::span<const std::string> texts, const SpecialTokens& special) {
  std::set<std::string> found;
  for (const std::string& text : texts) {
    const std::string whole = text::well_formed(text);
    for (size_t position = 0; position < whole.size();)
      found.insert(text::character_text(text::next_character(whole, position)));
  }
  CtcVocabulary result;
  // Strings of UTF-8 are ordered as their characters are. The space is the first of what is written.
  for (const std::string& character : found)
    result.tokens_.push_back(character == " " && !special.delimiter.empty() ? special.delimiter : character);
  for (const std::string& token : {special.unknown, special.pad})
    if (!token.empty()) result.tokens_.push_back(token);
  result.unknown_ = special.unknown;
  result.pad_ = special.pad;
  result.delimiter_ = special.delimiter;
  return result;
}

void CtcVocabulary::save(const std::filesystem::path& directory) const {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < tokens_.size(); ++id)
    if (!tokens_[id].empty()) vocabulary[tokens_[id]] = id;
  const auto or_null = [](const std::string& token) { return token.empty() ? Json() : Json(token); };
  const Json config = {{"tokenizer_class", "Wav2Vec2CTCTokenizer"},
                       {"unk_token", or_null(unknown_)},
                       {"pad_token", or_null(pad_)},
                       {"word_delimiter_token", or_null(delimiter_)},
                       {"replace_word_delimiter_char", space_},
                       {"bos_token", nullptr},
                       {"eos_token", nullptr},
                       {"do_lower_case", lower_case_}};
  write_file(directory / "vocab.json", dump_json(vocabulary, 2) + "\n");
  write_file(directory / "tokenizer_config.json", dump_json(config, 2) + "\n");
}

int64_t CtcVocabulary::pad_id() const {
  const auto place = std::find(tokens_.begin(), tokens_.end(), pad_);
  if (pad_.empty() || place == tokens_.end())
    fail("vocab.json: expected the padding token {}, found {} other tokens", quoted(pad_), tokens_.size());
  return place - tokens_.begin();
}

std::vector<int64_t> CtcVocabulary::ids(std::string_view text) const {
  const std::string whole = text::well_formed(text);
  std::vector<int64_t> result;
  for (size_t position = 0; position < whole.size();) {
    std::string character = text::character_text(text::next_character(whole, position));
    // A vocabulary that says do_lower_case has capitals alone.
    if (lower_case_) std::transform(character.begin(), character.end(), character.begin(), upper_case);
    auto place = std::find(tokens_.begin(), tokens_.end(), character == " " ? delimiter_ : character);
    if (place == tokens_.end() && !unknown_.empty()) place = std::find(tokens_.begin(), tokens_.end(), unknown_);
    if (place != tokens_.end()) result.push_back(place - tokens_.begin());
  }
  return result;
}

std::vector<SpokenPiece> CtcVocabulary::characters(std::span<const int64_t> ids, bool joined) const {
  std::vector<SpokenPiece> result;
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    do ++end;
    while (joined && end < ids.size() && ids[end] == ids[begin]);
    const auto id = static_cast<size_t>(ids[begin]);
    const std::string& token = ids[begin] >= 0 && id < tokens_.size() && !tokens_[id].empty() ? tokens_[id] : unknown_;
    if (token == pad_) continue;
    result.push_back({token == delimiter_ ? space_ : token, static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
  return result;
}

std::vector<SpokenPiece> CtcVocabulary::words(const std::vector<SpokenPiece>& characters) const {
  std::vector<SpokenPiece> result;
  bool inside = false;
  for (const SpokenPiece& character : characters) {
    const bool space = character.text == space_;
    if (!space && !inside) result.push_back({"", character.begin, character.end});
    if (!space) result.back().text += character.text, result.back().end = character.end;
    inside = !space;
  }
  return result;
}

std::string CtcVocabulary::text(const std::vector<SpokenPiece>& characters) const {
  std::string text;
  for (const SpokenPiece& character : characters) text += character.text;
  const size_t begin = text.find_first_not_of(" \t\n\r"), end = text.find_last_not_of(" \t\n\r");
  text = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  return lower_case_ ? lower_case(text) : text;
}

}  // namespace transom
