// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/collective_wait.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "runtime/device/flight_recorder.h"
#include "runtime/distributed/store.h"

namespace transom {
namespace {

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "3", "0-7" or "0-14:2".
bool add_run(std::string_view word, int64_t ranks, std::vector<int64_t>& all) {
  const size_t colon = word.find(':'), dash = word.find('-');
  const auto first = parsed<int64_t>(word.substr(0, std::min(dash, colon)));
  const auto last = dash == word.npos ? first : parsed<int64_t>(word.substr(dash + 1, colon - dash - 1));
  const auto step = colon == word.npos ? int64_t{1} : parsed<int64_t>(word.substr(colon + 1));
  if (!first || !last || !step || *first < 0 || *last < *first || *last >= ranks || *step < 1) return false;
  for (int64_t rank = *first; rank <= *last; rank += *step) all.push_back(rank);
  return true;
}

}  // namespace

std::string name_of_group(const std::string& group) {
  if (group == kHostGroup) return "all ranks (on the host)";
  return (group.find('>') != group.npos ? "messages " : "ranks ") + group;
}

std::optional<std::vector<int64_t>> ranks_of_text(const std::string& group, int64_t ranks) {
  if (group == kHostGroup) {
    std::vector<int64_t> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const char separator = group.find('>') != group.npos ? '>' : ',';
  std::vector<int64_t> all;
  for (size_t at = 0; at <= group.size();) {
    const size_t end = std::min(group.find(separator, at), group.size());
    if (static_cast<int64_t>(all.size()) > ranks || !add_run(std::string_view(group).substr(at, end - at), ranks, all))
      return std::nullopt;
    at = end + 1;
  }
  std::sort(all.begin(), all.end());
  return all;
}

RankProgress progress_of(FlightRecorder& recorder) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  RankProgress all;
  for (const auto& [group, progress] : recorder.progress()) {
    CollectiveProgress& mine = all[group];
    mine.started = progress.started;
    const FlightRecord& waiting = progress.waiting;
    if (waiting.number == 0) continue;
    mine.waits_in = waiting.number;
    mine.waited = std::max(0.0, now - waiting.started);
    mine.what = waiting.what();
  }
  return all;
}

std::string bytes_of_progress(const RankProgress& progress) {
  std::vector<std::string> fields;
  for (const auto& [group, mine] : progress)
    fields.push_back(joined_texts({group, std::to_string(mine.started), std::to_string(mine.waits_in),
                                   fmt::format("{:.3f}", mine.waited), mine.what}));
  return joined_texts(fields);
}

std::optional<RankProgress> progress_of_bytes(const std::string& bytes) {
  const auto groups = split_texts(bytes);
  if (!groups) return std::nullopt;
  RankProgress all;
  for (const std::string& group : *groups) {
    auto fields = split_texts(group);
    if (!fields || fields->size() != 5) return std::nullopt;
    const auto started = parsed<uint64_t>((*fields)[1]), waits_in = parsed<uint64_t>((*fields)[2]);
    const auto waited = parsed<double>((*fields)[3]);
    if (!started || !waits_in || !waited) return std::nullopt;
    all[(*fields)[0]] = {*started, *waits_in, *waited, std::move((*fields)[4])};
  }
  return all;
}

}  // namespace transom
