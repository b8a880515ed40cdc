// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/phonemes.h"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "base/error.h"
#include "base/processes/run_process.h"

namespace transom {
namespace {

constexpr size_t kMostBytes = 4096;  // of a part
constexpr size_t kMostAnswer = 1 << 20;
constexpr std::chrono::seconds kLongestTime{60};
constexpr const char* kProgram = "espeak-ng";

// What the program says of one part of a text, without ends of lines and marks of languages.
std::string spoken(const std::string& text, const std::string& language) {
  if (find_in_path(kProgram).empty())
    fail(
        "phonemes: the program espeak-ng is not found; install it (apt-get install espeak-ng), or give phonemes "
        "themselves with --phonemes");
  const ProcessOutcome said = run_process("phonemes", {kProgram, "-q", "-b", "1", "--ipa", "-v", language, "--stdin"},
                                          text, {.longest = kLongestTime, .most_output = kMostAnswer});
  if (said.status != 0) fail("phonemes: espeak-ng gives none for the language {}", quoted(language));
  std::string clean;
  int depth = 0;  // "(en)" stands where it changes the language
  for (const char c : said.output) {
    if (c == '(') ++depth;
    else if (c == ')') depth = std::max(depth - 1, 0);
    else if (depth == 0) clean += c == '\n' || c == '\r' ? ' ' : c;
  }
  const size_t begin = clean.find_first_not_of(' ');
  if (begin == clean.npos) return "";
  return clean.substr(begin, clean.find_last_not_of(' ') - begin + 1);
}

// How many bytes at the place are one mark of punctuation; 0: none.
size_t punctuation_at(std::string_view text, size_t place) {
  for (const std::string_view mark :
       {",", ".", ";", ":", "!", "?", "\"", "(", ")", "…", "—", "“", "”", "«", "»", "¡", "¿", "。", "、", "！", "？"})
    if (text.substr(place).starts_with(mark)) return mark.size();
  return 0;
}

bool is_letter_around(std::string_view text, size_t place) {
  const auto plain = [&](size_t i) { return i < text.size() && static_cast<unsigned char>(text[i]) > ' '; };
  return place > 0 && plain(place - 1) && plain(place + 1) && punctuation_at(text, place + 1) == 0;
}

}  // namespace

std::string phonemes_of(std::string_view text, const std::string& language) {
  if (language.empty() || language.size() > 32 ||
      !std::all_of(language.begin(), language.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; }) ||
      language[0] == '-')
    fail("phonemes: expected a language as espeak-ng names it (en-us), found {}", quoted(language));
  std::string result, part;
  const auto take_part = [&] {
    if (part.size() > kMostBytes)
      fail("phonemes: expected punctuation within {} bytes, found {} without any", kMostBytes, part.size());
    const size_t begin = part.find_first_not_of(" \t\n\r");
    if (begin != part.npos) {
      const bool spaced = begin > 0 && !result.empty() && result.back() != ' ';
      result += (spaced ? " " : "") + spoken(part, language);
      if (part.find_last_not_of(" \t\n\r") + 1 < part.size()) result += ' ';
    } else if (!part.empty() && !result.empty() && result.back() != ' ') {
      result += ' ';
    }
    part.clear();
  };
  for (size_t place = 0; place < text.size();) {
    const size_t mark = punctuation_at(text, place);
    if (mark == 0 || is_letter_around(text, place)) {  // "3.5", "it's"
      part += text[place++];
      continue;
    }
    take_part();
    std::string written(text.substr(place, mark));
    if (written == "。") written = ".";
    if (written == "、") written = ",";
    if (written == "！") written = "!";
    if (written == "？") written = "?";
    result += written;
    place += mark;
  }
  take_part();
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace transom
