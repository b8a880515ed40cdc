// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/serve/load_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace transom {
namespace {

// Of sorted values.
double percentile_of_sorted(const std::vector<double>& values, double percent) {
  if (values.empty()) return 0;
  const double place = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

LatencyFigures figures_of(std::vector<double> seconds, const std::vector<double>& percentiles) {
  LatencyFigures figures;
  std::sort(seconds.begin(), seconds.end());
  const double count = std::max(1.0, static_cast<double>(seconds.size()));
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  double squares = 0;
  for (const double each : seconds) squares += (each - mean) * (each - mean);
  figures.mean = mean * 1e3;
  figures.deviation = std::sqrt(squares / count) * 1e3;
  figures.median = percentile_of_sorted(seconds, 50) * 1e3;
  for (const double percent : percentiles)
    figures.percentiles.emplace_back(percent, percentile_of_sorted(seconds, percent) * 1e3);
  return figures;
}

// How many of the requests ran at once, at most: one that ends makes place for one that begins at the same time.
int64_t most_at_once(const std::vector<const LoadOutcome*>& outcomes) {
  std::vector<std::pair<double, int>> changes;
  for (const LoadOutcome* each : outcomes) {
    changes.emplace_back(each->start, 1);
    changes.emplace_back(each->start + each->latency, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

void count_by_second(const std::vector<const LoadOutcome*>& outcomes, LoadMetrics& metrics) {
  double first = HUGE_VAL, last = 0;
  for (const LoadOutcome* each : outcomes) {
    first = std::min(first, each->start);
    last = std::max(last, each->start + each->latency);
  }
  if (outcomes.empty()) return;
  const auto seconds = static_cast<size_t>(std::ceil(last - first)) + 1;
  metrics.tokens_by_second.assign(seconds, 0);
  metrics.running_by_second.assign(seconds, 0);
  for (const LoadOutcome* each : outcomes) {
    double time = each->start + each->first_token - first;
    const auto add = [&] {
      ++metrics.tokens_by_second[std::min(static_cast<size_t>(std::max(0.0, time)), seconds - 1)];
    };
    add();
    for (const double gap : each->gaps) time += gap, add();
    const auto begin = static_cast<size_t>(std::max(0.0, each->start - first));
    const auto end = static_cast<size_t>(std::ceil(each->start + each->latency - first));
    for (size_t second = begin; second < std::min(end, seconds); ++second) ++metrics.running_by_second[second];
  }
  metrics.most_output_tokens_per_second =
      *std::max_element(metrics.tokens_by_second.begin(), metrics.tokens_by_second.end());
}

}  // namespace

ServiceLevel parse_service_level(const std::vector<std::string>& words, const std::string& where) {
  ServiceLevel level;
  for (const std::string& word : words) {
    const size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    char* end = nullptr;
    const double limit = colon == word.npos ? -1 : std::strtod(word.c_str() + colon + 1, &end);
    const bool number = end && *end == '\0' && end != word.c_str() + colon + 1 && std::isfinite(limit) && limit >= 0;
    if ((name != "ttft" && name != "tpot" && name != "e2el") || !number)
      fail(ErrorKind::kUsage, "{}: expected ttft:MS, tpot:MS or e2el:MS, found {}", where, quoted(word));
    level[name] = limit;
  }
  return level;
}

double percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  return percentile_of_sorted(values, percent);
}

LoadMetrics load_metrics(const LoadResult& result, const std::vector<double>& percentiles, const ServiceLevel& level) {
  LoadMetrics metrics;
  metrics.duration = result.duration;
  std::vector<const LoadOutcome*> good;
  std::vector<double> queued;
  const auto limit = [&](const char* name) {
    const auto found = level.find(name);
    return found == level.end() ? HUGE_VAL : found->second / 1e3;
  };
  for (const LoadOutcome& each : result.outcomes) {
    if (!each.success) {
      ++metrics.failed;
      continue;
    }
    ++metrics.completed;
    good.push_back(&each);
    // A server that counts nothing: each piece of text is a token.
    const int64_t written = each.output_tokens > 0 ? each.output_tokens
                            : each.text.empty()    ? 0
                                                   : static_cast<int64_t>(each.gaps.size()) + 1;
    metrics.input_tokens += each.prompt_tokens;
    metrics.output_tokens += written;
    const double tpot = written > 1 ? (each.latency - each.first_token) / static_cast<double>(written - 1) : 0;
    if (written > 1) metrics.tpots.push_back(tpot);
    metrics.ttfts.push_back(each.first_token);
    metrics.e2els.push_back(each.latency);
    metrics.itls.insert(metrics.itls.end(), each.gaps.begin(), each.gaps.end());
    queued.push_back(each.queued);
    if (each.first_token <= limit("ttft") && tpot <= limit("tpot") && each.latency <= limit("e2el")) ++metrics.good;
  }
  const double seconds = std::max(result.duration, 1e-9);
  metrics.request_throughput = static_cast<double>(metrics.completed) / seconds;
  metrics.request_goodput = static_cast<double>(metrics.good) / seconds;
  metrics.output_throughput = static_cast<double>(metrics.output_tokens) / seconds;
  metrics.total_token_throughput = static_cast<double>(metrics.input_tokens + metrics.output_tokens) / seconds;
  metrics.most_concurrent = most_at_once(good);
  count_by_second(good, metrics);
  metrics.ttft = figures_of(metrics.ttfts, percentiles);
  metrics.tpot = figures_of(metrics.tpots, percentiles);
  metrics.itl = figures_of(metrics.itls, percentiles);
  metrics.e2el = figures_of(metrics.e2els, percentiles);
  metrics.queued = figures_of(queued, percentiles);
  return metrics;
}

}  // namespace transom
