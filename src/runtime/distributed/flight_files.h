// SPDX-License-Identifier: Apache-2.0
// What each rank leaves of its last collectives when a run fails (flight_<rank>.json), and what those of all ranks say
// together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "runtime/device/flight_recorder.h"

namespace transom {

struct FlightFile {
  int64_t rank = 0, ranks = 1;
  std::string host, reason;
  double written = 0;  // seconds since 1970
  std::vector<FlightRecord> records;
};

fs::path flight_file(const fs::path& directory, int64_t rank);

// Makes the directory, but not the one that holds it. Throws an Error that names the file.
void write_flight_file(const fs::path& directory, const FlightFile& file);
// Throws an Error that names what is wrong in the file.
FlightFile read_flight_file(const fs::path& path);

// One collective, as the ranks of its group saw it.
struct FlightCollective {
  std::string group, what;  // "all_reduce of 4096 bytes of float32": of the first rank that came
  uint64_t number = 0;
  struct Arrival {
    int64_t rank = 0;
    double started = 0, ended = 0;  // as in FlightRecord
    std::string what;
  };
  std::vector<Arrival> arrivals;         // in the order of coming
  std::vector<int64_t> missing, silent;  // ranks that did not come; ranks without a file, or that keep no record of it

  bool ended() const;
  bool differs() const;
};

struct FlightReport {
  int64_t ranks = 0;
  std::vector<int64_t> without_file;
  std::vector<FlightCollective> collectives;  // in the order of their beginning
  // What stands still, one sentence each; the first one began first.
  std::vector<std::string> findings;
};

// Reads flight_*.json of a directory. Throws an Error where there is none, or where they are of different runs.
FlightReport merge_flight_files(const fs::path& directory);

}  // namespace transom
