// SPDX-License-Identifier: Apache-2.0
// The files of all ranks as one account.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "runtime/distributed/collective_wait.h"
#include "runtime/distributed/environment.h"
#include "runtime/distributed/flight_files.h"

namespace transom {

// A rank that was busy did not see all ends, but what has ended for one of them has for all.
bool FlightCollective::ended() const {
  return missing.empty() && std::any_of(arrivals.begin(), arrivals.end(), [](const auto& a) { return a.ended > 0; });
}

bool FlightCollective::differs() const {
  return std::any_of(arrivals.begin(), arrivals.end(), [&](const auto& a) { return a.what != what; });
}

namespace {

using Key = std::pair<std::string, uint64_t>;  // group, number

std::string list_of(const std::vector<int64_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", text_of_ranks(ranks));
}

// What stands still in it; empty: nothing.
std::string finding(const FlightCollective& collective, const std::set<int64_t>& without_file) {
  const std::string name =
      fmt::format("collective {} of {} ({})", collective.number, name_of_group(collective.group), collective.what);
  if (collective.differs()) {
    const auto other = std::find_if(collective.arrivals.begin(), collective.arrivals.end(),
                                    [&](const auto& arrival) { return arrival.what != collective.what; });
    return fmt::format("{}: rank {} came with {}: the ranks compute different programs", name, other->rank,
                       other->what);
  }
  if (collective.ended()) return "";
  std::vector<int64_t> came, lost;
  for (const auto& arrival : collective.arrivals)
    if (arrival.ended == 0) came.push_back(arrival.rank);
  std::sort(came.begin(), came.end());
  for (const int64_t rank : collective.silent)
    if (without_file.contains(rank)) lost.push_back(rank);
  if (came.empty()) return "";  // all that know of it are through
  std::string text = fmt::format("{}: {} waited in it", name, list_of(came));
  if (!collective.missing.empty()) text += fmt::format("; {} did not come", list_of(collective.missing));
  if (!lost.empty()) text += fmt::format("; nothing is known of {}", list_of(lost));
  if (collective.missing.empty() && lost.empty()) text += ", and all had come";
  return text;
}

}  // namespace

FlightReport merge_flight_files(const fs::path& directory) {
  FlightReport report;
  std::map<int64_t, FlightFile> files;
  for (const fs::path& path : list_directory(directory)) {
    const std::string name = path.filename().string();
    if (!name.starts_with("flight_") || !name.ends_with(".json")) continue;
    FlightFile file = read_flight_file(path);
    if (!files.empty() && file.ranks != files.begin()->second.ranks)
      fail("{}: ranks: expected {}, as in the file of rank {}, found {}", path.string(), files.begin()->second.ranks,
           files.begin()->first, file.ranks);
    const int64_t rank = file.rank;
    if (!files.emplace(rank, std::move(file)).second) fail("{}: there are two files of rank {}", path.string(), rank);
  }
  if (files.empty())
    fail("{}: expected flight_0.json and others, which each rank writes when a run fails, found none",
         directory.string());
  report.ranks = files.begin()->second.ranks;
  std::set<int64_t> without_file;
  for (int64_t rank = 0; rank < report.ranks; ++rank)
    if (!files.contains(rank)) without_file.insert(rank);
  report.without_file.assign(without_file.begin(), without_file.end());

  std::map<Key, FlightCollective> collectives;
  std::map<std::pair<int64_t, std::string>, uint64_t> oldest;  // that a rank has kept of a group
  for (const auto& [rank, file] : files)
    for (const FlightRecord& record : file.records) {
      oldest.try_emplace({rank, record.group}, record.number);
      FlightCollective& collective = collectives[{record.group, record.number}];
      collective.group = record.group;
      collective.number = record.number;
      collective.arrivals.push_back({rank, record.started, record.ended, record.what()});
    }
  for (auto& [key, collective] : collectives) {
    std::stable_sort(collective.arrivals.begin(), collective.arrivals.end(),
                     [](const auto& a, const auto& b) { return a.started < b.started; });
    collective.what = collective.arrivals[0].what;
    for (const int64_t rank : ranks_of_text(key.first, report.ranks).value_or(std::vector<int64_t>())) {
      if (std::any_of(collective.arrivals.begin(), collective.arrivals.end(),
                      [&, member = rank](const auto& arrival) { return arrival.rank == member; }))
        continue;
      const auto kept = oldest.find({rank, key.first});
      const bool forgotten = kept != oldest.end() && key.second < kept->second;
      (without_file.contains(rank) || forgotten ? collective.silent : collective.missing).push_back(rank);
    }
    report.collectives.push_back(collective);
  }
  std::stable_sort(report.collectives.begin(), report.collectives.end(),
                   [](const auto& a, const auto& b) { return a.arrivals[0].started < b.arrivals[0].started; });
  for (const FlightCollective& collective : report.collectives)
    if (std::string text = finding(collective, without_file); !text.empty()) report.findings.push_back(std::move(text));
  return report;
}

}  // namespace transom
