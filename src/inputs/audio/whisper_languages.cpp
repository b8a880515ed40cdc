// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/whisper_languages.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace transom {
namespace {

// Code and name of each language; a code that stands twice has another name.
constexpr std::pair<std::string_view, std::string_view> kLanguages[] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
    {"my", "burmese"},        {"ca", "valencian"},   {"nl", "flemish"},       {"ht", "haitian"},
    {"lb", "letzeburgesch"},  {"ps", "pushto"},      {"pa", "panjabi"},       {"ro", "moldavian"},
    {"ro", "moldovan"},       {"si", "sinhalese"},   {"es", "castilian"},     {"zh", "mandarin"}};

}  // namespace

std::string whisper_language(std::string_view code) {
  for (const auto& [known, name] : kLanguages)
    if (known == code) return std::string(name);
  return "";
}

std::string whisper_language_code(std::string_view name) {
  for (const auto& [code, known] : kLanguages)
    if (known == name || code == name) return std::string(code);
  return "";
}

std::string whisper_language_mark(std::string_view given) {
  std::string name(given);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const std::string code = whisper_language_code(name);
  return code.empty() ? "" : "<|" + code + "|>";
}

std::vector<int64_t> likeliest_languages(std::span<const float> scores, size_t rows, std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  const size_t width = rows == 0 ? 0 : scores.size() / rows;
  std::erase_if(ids, [&](int64_t id) { return id < 0 || static_cast<size_t>(id) >= width; });
  if (ids.empty()) fail("generation_config.json: lang_to_id: holds no token of the model");
  std::vector<int64_t> best;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<const float> own = scores.subspan(row * width, width);
    best.push_back(*std::max_element(ids.begin(), ids.end(), [&](int64_t a, int64_t b) {
      return own[static_cast<size_t>(a)] < own[static_cast<size_t>(b)];
    }));
  }
  return best;
}

}  // namespace transom
