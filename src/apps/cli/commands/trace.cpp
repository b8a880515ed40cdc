// SPDX-License-Identifier: Apache-2.0
// transom trace: what the ranks of a run that failed were doing together.
#include <algorithm>
#include <cstdio>

#include "apps/cli/command.h"
#include "base/error.h"
#include "base/json/json.h"
#include "runtime/distributed/flight_files.h"

namespace transom {
namespace {

Json json_of(const FlightReport& report, size_t first) {
  Json rows = Json::array();
  for (size_t i = first; i < report.collectives.size(); ++i) {
    const FlightCollective& each = report.collectives[i];
    Json arrivals = Json::array();
    for (const auto& arrival : each.arrivals)
      arrivals.push_back(
          {{"rank", arrival.rank}, {"what", arrival.what}, {"started", arrival.started}, {"ended", arrival.ended}});
    rows.push_back({{"group", each.group},
                    {"number", each.number},
                    {"what", each.what},
                    {"arrivals", std::move(arrivals)},
                    {"missing", each.missing},
                    {"unknown", each.silent}});
  }
  return {{"ranks", report.ranks},
          {"without_file", report.without_file},
          {"findings", report.findings},
          {"collectives", std::move(rows)}};
}

// Who came last, and how long after the first one.
std::string arrivals_of(const FlightCollective& collective) {
  const auto &first = collective.arrivals.front(), &last = collective.arrivals.back();
  if (collective.arrivals.size() == 1) return fmt::format("{}", first.rank);
  return fmt::format("{}, {} after {:.3f} s", first.rank, last.rank, last.started - first.started);
}

std::string state_of(const FlightCollective& collective) {
  std::string text = collective.ended() ? "ended" : "";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  std::vector<int64_t> waiting;
  for (const auto& arrival : collective.arrivals)
    if (arrival.ended == 0 && !collective.ended()) waiting.push_back(arrival.rank);
  std::sort(waiting.begin(), waiting.end());
  if (!waiting.empty()) add("waiting: " + text_of_ranks(waiting));
  if (!collective.missing.empty()) add("missing: " + text_of_ranks(collective.missing));
  if (!collective.silent.empty()) add("unknown: " + text_of_ranks(collective.silent));
  if (collective.differs()) add("ranks differ");
  return text.empty() ? "ended" : text;
}

void print_flight_report(const FlightReport& report, size_t first) {
  for (const std::string& finding : report.findings) std::puts(finding.c_str());
  if (report.findings.empty()) std::puts("no rank waited for another");
  if (!report.without_file.empty())
    std::puts(fmt::format("without a file: {}", text_of_ranks(report.without_file)).c_str());
  if (first == report.collectives.size()) return;
  const double began = report.collectives[first].arrivals[0].started;
  std::puts(fmt::format("\n{:>10}  {:<12} {:>7}  {:<38} {:<28} {}", "SECONDS", "RANKS", "NUMBER", "WHAT",
                        "FIRST AND LAST TO COME", "STATE")
                .c_str());
  for (size_t i = first; i < report.collectives.size(); ++i) {
    const FlightCollective& each = report.collectives[i];
    std::puts(fmt::format("{:>10.3f}  {:<12} {:>7}  {:<38} {:<28} {}", each.arrivals[0].started - began, each.group,
                          each.number, each.what, arrivals_of(each), state_of(each))
                  .c_str());
  }
}

}  // namespace

Command trace_command() {
  static std::string merge;
  static int64_t last = 20;
  static bool json = false;
  Command command{
      .name = "trace",
      .help = "Show what the processes of a run that failed were waiting for",
      .examples = "  transom trace --merge out/flight\n  transom trace --merge out/flight --last 200 --json"};
  command.options = {{"--merge", &merge, "directory with the flight_<rank>.json of all processes", true},
                     {"--last", &last, "how many collectives to show, the last ones (0: all)"},
                     {"--json", &json, "machine-readable output (JSON), with the times of each process"}};
  command.run = [] {
    if (last < 0) fail(ErrorKind::kUsage, "--last: expected 0 or more, found {}", last);
    const FlightReport report = merge_flight_files(merge);
    const size_t all = report.collectives.size();
    const size_t first = last == 0 || static_cast<uint64_t>(last) >= all ? 0 : all - static_cast<size_t>(last);
    if (json) std::puts(dump_json(json_of(report, first), 2).c_str());
    else print_flight_report(report, first);
    return 0;
  };
  return command;
}

}  // namespace transom
