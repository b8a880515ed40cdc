// SPDX-License-Identifier: Apache-2.0
// Answers that stand in a column: the same text, or the same number.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

bool is_digit_of_answer(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed_answer(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The last number of a text: "so 1,234.50 in all" has 1234.5. A comma between three digits each is none of a fraction.
std::optional<double> last_number(std::string_view text) {
  for (size_t end = text.size(); end > 0; --end) {
    if (!is_digit_of_answer(text[end - 1])) continue;
    size_t begin = end;
    const auto belongs = [&](size_t at) {
      if (is_digit_of_answer(text[at])) return true;
      const bool between =
          at > 0 && at + 1 < end && is_digit_of_answer(text[at - 1]) && is_digit_of_answer(text[at + 1]);
      return (text[at] == ',' || text[at] == '.') && between;
    };
    while (begin > 0 && belongs(begin - 1)) --begin;
    std::string digits;
    for (const char c : text.substr(begin, end - begin))
      if (c != ',') digits += c;
    // A text like 1.2.3 is no number; its end is taken.
    if (const size_t point = digits.rfind('.'); point != digits.npos && digits.find('.') != point)
      digits = digits.substr(digits.rfind('.', point - 1) + 1);
    double value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
    const bool minus = begin > 0 && text[begin - 1] == '-' && (begin == 1 || !is_digit_of_answer(text[begin - 2]));
    return minus ? -value : value;
  }
  return std::nullopt;
}

std::string text_of_cell(const std::string& json) {
  const Json value = parse_json(json, "a reward's column");
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : dump_json(value);
}

std::optional<double> score(const std::string& kind, const std::string& completion, const std::string& answer) {
  if (trimmed_answer(answer).empty()) return std::nullopt;  // the row has no answer
  if (kind == "exact") return trimmed_answer(completion) == trimmed_answer(answer) ? 1.0 : 0.0;
  const std::optional<double> wanted = last_number(answer), found = last_number(completion);
  if (!wanted) return std::nullopt;
  return found && std::abs(*found - *wanted) <= 1e-9 * std::max(1.0, std::abs(*wanted)) ? 1.0 : 0.0;
}

}  // namespace

Reward answer_reward(const std::string& kind, const std::string& argument, const RewardContext& context) {
  std::string column = argument;
  const auto has = [&](const std::string& name) {
    return std::find(context.columns.begin(), context.columns.end(), name) != context.columns.end();
  };
  for (const char* usual : {"answer", "solution"})
    if (column.empty() && has(usual)) column = usual;
  if (column.empty() || !has(column))
    fail(ErrorKind::kUsage, "--reward_funcs: {}: expected a column of {} with answers, as in {}:answer; found {}", kind,
         context.data, kind, fmt::join(context.columns, ", "));
  return {kind, [kind, column](const RewardRequest& request) {
            std::vector<std::optional<double>> rewards;
            const std::vector<std::string>& answers = request.columns.at(column);
            for (size_t i = 0; i < request.completions.size(); ++i)
              rewards.push_back(score(kind, request.completions[i], text_of_cell(answers.at(i))));
            return rewards;
          }};
}

}  // namespace transom
