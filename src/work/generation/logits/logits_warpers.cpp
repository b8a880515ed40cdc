// SPDX-License-Identifier: Apache-2.0
// What narrows the choice of sampled tokens: temperature, top k (Fan et al., 2018), top p (Holtzman et al., 2019), min
// p (Nguyen et al., 2024), typical p (Meister et al., 2022), epsilon and eta cutoffs (Hewitt et al., 2022).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "work/generation/logits/logits_processors.h"

namespace transom {
namespace {

constexpr float kRemoved = -std::numeric_limits<float>::infinity();

std::vector<double> probabilities(std::span<const float> scores) {
  std::vector<double> result(scores.size());
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (size_t i = 0; i < scores.size(); ++i) total += result[i] = std::exp(static_cast<double>(scores[i]) - highest);
  for (double& p : result) p /= total;
  return result;
}

// Places by rising key.
template <typename Key>
std::vector<size_t> order_by(size_t count, Key&& key) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

// The score that `count` tokens have or exceed.
float least_of_best(std::span<const float> scores, size_t count) {
  std::vector<float> sorted(scores.begin(), scores.end());
  const size_t place = std::min(count, sorted.size()) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(place), sorted.end(), std::greater<>());
  return sorted[place];
}

void keep_above(std::span<float> scores, const std::vector<double>& p, double threshold, size_t keep) {
  const float least = least_of_best(scores, keep);
  for (size_t i = 0; i < scores.size(); ++i)
    if (p[i] < threshold && scores[i] < least) scores[i] = kRemoved;
}

void top_p(std::span<float> scores, double mass, size_t keep) {
  const std::vector<double> p = probabilities(scores);
  const std::vector<size_t> rising = order_by(scores.size(), [&](size_t i) { return scores[i]; });
  double total = 0;
  for (size_t n = 0; n + keep < rising.size(); ++n) {
    total += p[rising[n]];
    if (total > 1 - mass) break;
    scores[rising[n]] = kRemoved;
  }
}

void min_p(std::span<float> scores, double part, size_t keep) {
  const std::vector<double> p = probabilities(scores);
  keep_above(scores, p, part * *std::max_element(p.begin(), p.end()), keep);
}

// Tokens whose information is nearest to what is expected, until they make up the mass.
void typical_p(std::span<float> scores, double mass, size_t keep) {
  const std::vector<double> p = probabilities(scores);
  double entropy = 0;
  for (const double x : p)
    if (x > 0) entropy -= x * std::log(x);
  const auto strangeness = [&](size_t i) { return std::abs(-std::log(p[i]) - entropy); };
  const std::vector<size_t> order = order_by(scores.size(), strangeness);
  double total = 0;
  size_t last = 0;
  for (; last + 1 < order.size(); ++last) {
    total += p[order[last]];
    if (total >= mass) break;
  }
  const double limit = strangeness(order[last]);
  for (size_t n = keep; n < order.size(); ++n)
    if (strangeness(order[n]) > limit) scores[order[n]] = kRemoved;
}

void eta_cutoff(std::span<float> scores, double epsilon, size_t keep) {
  const std::vector<double> p = probabilities(scores);
  double entropy = 0;
  for (const double x : p)
    if (x > 0) entropy -= x * std::log(x);
  keep_above(scores, p, std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy)), keep);
}

void expect(bool fits, const char* name, std::string_view range, double found) {
  if (!fits) fail("{}: expected {}, found {}", name, range, found);
}

}  // namespace

void add_logits_warpers(std::vector<LogitsProcessor>& processors, const GenerationConfig& c, size_t keep) {
  const auto add = [&](auto&& narrow) { processors.push_back([narrow](const ScoredRow& row) { narrow(row.scores); }); };
  expect(c.temperature > 0, "temperature", "a number above 0 (to take the likeliest token, do_sample false)",
         c.temperature);
  if (c.temperature != 1)
    add([divisor = static_cast<float>(c.temperature)](std::span<float> scores) {
      for (float& score : scores) score /= divisor;
    });
  expect(c.top_k >= 0, "top_k", "a whole number that is not negative", static_cast<double>(c.top_k));
  if (c.top_k > 0)
    add([count = std::max(static_cast<size_t>(c.top_k), keep)](std::span<float> scores) {
      const float least = least_of_best(scores, count);
      for (float& score : scores)
        if (score < least) score = kRemoved;
    });
  expect(c.top_p >= 0 && c.top_p <= 1, "top_p", "a number in [0, 1]", c.top_p);
  if (c.top_p < 1) add([mass = c.top_p, keep](std::span<float> scores) { top_p(scores, mass, keep); });
  if (c.min_p) {
    expect(*c.min_p >= 0 && *c.min_p <= 1, "min_p", "a number in [0, 1]", *c.min_p);
    add([part = *c.min_p, keep](std::span<float> scores) { min_p(scores, part, keep); });
  }
  expect(c.typical_p > 0, "typical_p", "a number above 0", c.typical_p);
  if (c.typical_p < 1) add([mass = c.typical_p, keep](std::span<float> scores) { typical_p(scores, mass, keep); });
  if (c.epsilon_cutoff > 0 && c.epsilon_cutoff < 1)
    add([epsilon = c.epsilon_cutoff, keep](std::span<float> scores) {
      keep_above(scores, probabilities(scores), epsilon, keep);
    });
  if (c.eta_cutoff > 0 && c.eta_cutoff < 1)
    add([epsilon = c.eta_cutoff, keep](std::span<float> scores) { eta_cutoff(scores, epsilon, keep); });
}

}  // namespace transom
