// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/squad_metrics.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace transom {
namespace {

// The words of an answer: what stands between spaces after everything else is taken away.
std::vector<std::string> answer_words(std::string_view text) {
  icu::UnicodeString lower =
      icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  lower.toLower(icu::Locale::getRoot());
  icu::UnicodeString kept;
  for (int32_t i = 0; i < lower.length(); i = lower.moveIndex32(i, 1)) {
    const UChar32 c = lower.char32At(i);
    if (!(c < 128 && u_ispunct(c)) &&
        !(c < 128 && std::string_view("$+<=>^`|~").find(static_cast<char>(c)) != std::string_view::npos))
      kept.append(c);
  }
  // An article is a run of letters, digits and underscores that is one of three words.
  const auto in_word = [&](UChar32 c) { return u_isalnum(c) || c == '_'; };
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (int32_t i = 0; i < kept.length();) {
    int32_t end = i;
    while (end < kept.length() && in_word(kept.char32At(end))) end = kept.moveIndex32(end, 1);
    if (end > i) {
      std::string run;
      kept.tempSubStringBetween(i, end).toUTF8String(run);
      if (run == "a" || run == "an" || run == "the") finish();  // stands as a space
      else word += run;
      i = end;
    } else {
      const UChar32 c = kept.char32At(i);
      if (u_isUWhiteSpace(c)) finish();
      else icu::UnicodeString(c).toUTF8String(word);
      i = kept.moveIndex32(i, 1);
    }
  }
  finish();
  return words;
}

double f1(const std::vector<std::string>& predicted, const std::vector<std::string>& actual, bool empty_is_equal) {
  if (empty_is_equal && (predicted.empty() || actual.empty())) return predicted.empty() == actual.empty();
  std::map<std::string, int> left;
  for (const std::string& word : actual) ++left[word];
  int common = 0;
  for (const std::string& word : predicted) common += left[word]-- > 0;
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(actual.size());
  return 2 * precision * recall / (precision + recall);
}

struct Score {
  double exact = 0, f1 = 0;
};

struct Scores {
  double exact = 0, f1 = 0;
  int64_t count = 0;

  Score add(const AnswerPair& pair, bool version_2) {
    std::vector<std::vector<std::string>> answers;
    for (const std::string& answer : pair.answers) {
      auto words = answer_words(answer);
      if (!version_2 || !words.empty()) answers.push_back(std::move(words));
    }
    if (answers.empty()) answers.emplace_back();
    const auto predicted = answer_words(pair.prediction);
    double best_exact = 0, best_f1 = 0;
    for (const auto& answer : answers) {
      best_exact = std::max<double>(best_exact, predicted == answer);
      best_f1 = std::max(best_f1, transom::f1(predicted, answer, version_2));
    }
    exact += best_exact, f1 += best_f1, ++count;
    return {best_exact, best_f1};
  }
  double percent(double sum) const { return count == 0 ? 0 : 100 * sum / static_cast<double>(count); }
};

}  // namespace

std::string normalized_answer(std::string_view text) { return fmt::format("{}", fmt::join(answer_words(text), " ")); }

LogRecord squad_metrics(const std::vector<AnswerPair>& pairs) {
  Scores scores;
  for (const AnswerPair& pair : pairs) scores.add(pair, false);
  return {{"exact_match", scores.percent(scores.exact)}, {"f1", scores.percent(scores.f1)}};
}

LogRecord squad_v2_metrics(const std::vector<AnswerPair>& pairs) {
  Scores all, with, without;
  // What a threshold on the probability of no answer could reach. The scripts give 0 as the probability of each, so
  // that the threshold says how many of the first questions are answered at all.
  const auto unanswerable = static_cast<double>(
      std::count_if(pairs.begin(), pairs.end(), [](const AnswerPair& pair) { return pair.answers.empty(); }));
  Score now{unanswerable, unanswerable}, best = now;
  for (const AnswerPair& pair : pairs) {
    const Score score = all.add(pair, true);
    (pair.answers.empty() ? without : with).add(pair, true);
    const double wrong = pair.prediction.empty() ? 0 : -1;
    now.exact += pair.answers.empty() ? wrong : score.exact;
    now.f1 += pair.answers.empty() ? wrong : score.f1;
    best = {std::max(best.exact, now.exact), std::max(best.f1, now.f1)};
  }
  LogRecord record = {{"exact", all.percent(all.exact)}, {"f1", all.percent(all.f1)}, {"total", all.count}};
  const auto add = [&](const std::string& prefix, const Scores& scores) {
    if (scores.count == 0) return;
    record.emplace_back(prefix + "exact", scores.percent(scores.exact));
    record.emplace_back(prefix + "f1", scores.percent(scores.f1));
    record.emplace_back(prefix + "total", scores.count);
  };
  add("HasAns_", with);
  add("NoAns_", without);
  record.emplace_back("best_exact", all.percent(best.exact));
  record.emplace_back("best_exact_thresh", 0.0);
  record.emplace_back("best_f1", all.percent(best.f1));
  record.emplace_back("best_f1_thresh", 0.0);
  return record;
}

}  // namespace transom
