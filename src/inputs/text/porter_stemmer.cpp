// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/porter_stemmer.h"

#include <map>
#include <string_view>
#include <vector>

namespace transom {
namespace {

bool is_vowel_letter(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

// Of each letter whether it is a consonant: a y is one at the beginning and behind a vowel.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> result;
  for (size_t i = 0; i < word.size(); ++i)
    result.push_back(word[i] == 'y' ? i == 0 || !result[i - 1] : !is_vowel_letter(word[i]));
  return result;
}

// m of [C](VC)^m[V].
int measure(std::string_view stem) {
  const std::vector<bool> kinds = consonants(stem);
  int count = 0;
  for (size_t i = 1; i < kinds.size(); ++i) count += !kinds[i - 1] && kinds[i];
  return count;
}

bool has_vowel(std::string_view stem) {
  for (const bool consonant : consonants(stem))
    if (!consonant) return true;
  return false;
}

bool ends_in_double_consonant(std::string_view word) {
  return word.size() >= 2 && word.back() == word[word.size() - 2] && consonants(word).back();
}

// *o: the stem ends consonant, vowel, consonant, and the last of them is not w, x or y.
bool ends_cvc(std::string_view word) {
  const std::vector<bool> kinds = consonants(word);
  const size_t n = word.size();
  if (n == 2) return !kinds[0] && kinds[1];
  return n >= 3 && kinds[n - 3] && !kinds[n - 2] && kinds[n - 1] && word[n - 1] != 'w' && word[n - 1] != 'x' &&
         word[n - 1] != 'y';
}

struct Rule {
  std::string_view suffix, replacement;
};

// The first rule whose suffix the word has is the only one: it applies if what stays has a measure above `least`.
template <size_t N>
std::string replaced(const std::string& word, const Rule (&rules)[N], int least) {
  for (const auto& [suffix, replacement] : rules) {
    if (!word.ends_with(suffix)) continue;
    std::string stem = word.substr(0, word.size() - suffix.size());
    const size_t kept_letters = suffix == "logi" ? 1 : 0;  // these are measured with their l
    if (measure(std::string_view(word).substr(0, stem.size() + kept_letters)) <= least) return word;
    if (suffix == "ion" && !stem.ends_with('s') && !stem.ends_with('t')) return word;
    return stem.append(replacement);
  }
  return word;
}

std::string without(const std::string& word, size_t letters) { return word.substr(0, word.size() - letters); }

std::string plurals(const std::string& word) {  // step 1a
  if (word.ends_with("sses")) return without(word, 2);
  if (word.ends_with("ies")) return without(word, word.size() == 4 ? 1 : 2);
  return word.ends_with('s') && !word.ends_with("ss") ? without(word, 1) : word;
}

std::string participles(const std::string& word) {  // step 1b
  if (word.ends_with("ied")) return without(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("eed"))
    return measure(std::string_view(word).substr(0, word.size() - 3)) > 0 ? without(word, 1) : word;
  std::string stem;
  for (const std::string_view suffix : {"ed", "ing"})
    if (stem.empty() && word.ends_with(suffix) &&
        has_vowel(std::string_view(word).substr(0, word.size() - suffix.size())))
      stem = without(word, suffix.size());
  if (stem.empty()) return word;
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) return stem + "e";
  if (ends_in_double_consonant(stem))
    return stem.ends_with('l') || stem.ends_with('s') || stem.ends_with('z') ? stem : without(stem, 1);
  return measure(stem) == 1 && ends_cvc(stem) ? stem + "e" : stem;
}

std::string final_y(const std::string& word) {  // step 1c
  const bool turns = word.size() > 2 && word.ends_with('y') && consonants(word)[word.size() - 2];
  return turns ? without(word, 1) + "i" : word;
}

std::string double_suffixes(const std::string& word) {  // step 2
  static constexpr Rule kRules[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                                    {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
                                    {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                                    {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                                    {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
                                    {"fulli", "ful"},   {"logi", "log"}};
  std::string result = word;
  while (result.ends_with("alli") && measure(std::string_view(result).substr(0, result.size() - 4)) > 0)
    result = without(result, 2);
  return replaced(result, kRules, 0);
}

constexpr Rule kStep3[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                           {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
constexpr Rule kStep4[] = {{"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},    {"ic", ""},
                           {"able", ""}, {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""},
                           {"ent", ""},  {"ion", ""},  {"ou", ""},   {"ism", ""},   {"ate", ""},
                           {"iti", ""},  {"ous", ""},  {"ive", ""},  {"ize", ""}};

std::string final_e(const std::string& word) {  // step 5a
  if (!word.ends_with('e')) return word;
  const std::string stem = without(word, 1);
  const int m = measure(stem);
  return m > 1 || (m == 1 && !ends_cvc(stem)) ? stem : word;
}

std::string final_l(const std::string& word) {  // step 5b
  return word.ends_with("ll") && measure(std::string_view(word).substr(0, word.size() - 1)) > 1 ? without(word, 1)
                                                                                                : word;
}

}  // namespace

std::string porter_stem(std::string word) {
  static const std::map<std::string, std::string, std::less<>> kIrregular = {
      {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};
  if (const auto found = kIrregular.find(word); found != kIrregular.end()) return found->second;
  if (word.size() <= 2) return word;
  word = final_y(participles(plurals(word)));
  word = replaced(replaced(double_suffixes(word), kStep3, 0), kStep4, 1);
  return final_l(final_e(word));
}

}  // namespace transom
