// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/spelled_numbers.h"

#include <algorithm>
#include <vector>

#include "inputs/text/unicode/clean_up.h"

namespace transom::text {
namespace {

constexpr std::string_view kOnes[] = {"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
constexpr std::string_view kTeens[] = {"",        "eleven",  "twelve",    "thirteen", "fourteen",
                                       "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::string_view kTens[] = {"",      "ten",   "twenty",  "thirty", "forty",
                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::string_view kThousands[] = {"",           "thousand",    "million",     "billion",
                                           "trillion",   "quadrillion", "quintillion", "sextillion",
                                           "septillion", "octillion",   "nonillion",   "decillion"};
struct Currency {
  std::string_view symbol, name;
};
// In the order in which they may stand before a number.
constexpr Currency kCurrencies[] = {{"$", " dollars"},          {"€", " euros"},
                                    {"£", " pounds"},           {"¢", " cents"},
                                    {"¥", " japanese yen"},     {"₹", " indian rupees"},
                                    {"₽", " russian rubles"}, {"฿", " thai baht"},
                                    {"₺", " turkish liras"},    {"₴", " ukrainian hryvnia"},
                                    {"₣", " swiss francs"},     {"₡", " costa rican colon"},
                                    {"₱", " philippine peso"},  {"₪", " israeli shekels"},
                                    {"₮", " mongolian tögrög"}, {"₩", " south korean won"},
                                    {"₦", " nigerian naira"},   {"₫", " vietnamese Đồng"},
                                    {"﷼", " saudi riyal"}};

std::string number_pattern() {
  std::string symbols;
  for (const Currency& currency : kCurrencies)
    symbols += (currency.symbol == "$" ? "\\$" : std::string(currency.symbol)) + "?";
  return "(?<!\\w)-?" + symbols + "[0-9]+(?:\\.[0-9]{1,2})?%?(?!\\w)";
}

void join(std::string& text, std::string_view word) {
  if (word.empty()) return;
  if (!text.empty()) text += ' ';
  text += word;
}

// Of 1 to 999.
std::string spelled_below_thousand(int value) {
  std::string result;
  const int hundreds = value / 100, rest = value % 100;
  if (hundreds > 0) result = std::string(kOnes[hundreds]) + " hundred" + (rest > 0 ? " and" : "");
  if (rest > 10 && rest < 20) join(result, kTeens[rest - 10]);
  else join(result, kTens[rest / 10]), join(result, kOnes[rest % 10]);
  return result;
}

void replace_matches(AlignedText& text, const Regex& regex, const auto& written) {
  std::vector<std::pair<size_t, size_t>> matches;
  regex.find_all(text.bytes, matches);
  if (matches.empty()) return;
  AlignedText out;
  size_t last = 0;
  for (const auto& match : matches) {
    out.append(text, last, match.first);
    out.append(written(text.view(match.first, match.second)), text.original(match.first, match.second));
    last = match.second;
  }
  out.append(text, last, text.size());
  text = std::move(out);
}

}  // namespace

std::string spelled_number(std::string_view number) {
  std::string_view whole = number.substr(0, number.find('.')), decimals = "00";
  if (whole.size() < number.size()) decimals = number.substr(whole.size() + 1);
  const bool negative = whole.starts_with('-'), percent = number.ends_with('%');
  if (negative) whole.remove_prefix(1);
  std::string_view currency;
  for (const Currency& known : kCurrencies)
    if (currency.empty() && whole.starts_with(known.symbol))
      currency = known.name, whole.remove_prefix(known.symbol.size());
  if (whole.ends_with('%')) whole.remove_suffix(1);
  if (decimals.ends_with('%')) decimals.remove_suffix(1);
  const bool digits = std::all_of(whole.begin(), whole.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (whole.empty() || !digits || whole.size() > 3 * std::size(kThousands)) return std::string(number);

  const std::string padded = std::string((3 - whole.size() % 3) % 3, '0') + std::string(whole);
  std::string result;
  for (size_t i = 0; i < padded.size(); i += 3) {
    const int value = (padded[i] - '0') * 100 + (padded[i + 1] - '0') * 10 + (padded[i + 2] - '0');
    if (value == 0) continue;
    join(result, spelled_below_thousand(value));
    join(result, kThousands[(padded.size() - i) / 3 - 1]);
  }
  if (decimals != "00") {
    result += " point";
    for (const char c : decimals) join(result, c == '0' ? "zero" : kOnes[c - '0']);
  }
  return (negative ? "minus " : "") + result + (percent ? " percent" : "") + std::string(currency);
}

SpelledNumbers::SpelledNumbers()
    : separated_("[0-9]+,[0-9]+", "numbers"), number_(number_pattern(), "numbers"), spaces_(" +", "numbers") {}

void SpelledNumbers::apply(AlignedText& text) const {
  replace_matches(text, separated_, [](std::string_view found) { return replace_all(std::string(found), ",", ""); });
  replace_matches(text, number_, spelled_number);
  replace_matches(text, spaces_, [](std::string_view) { return std::string(" "); });
}

}  // namespace transom::text
