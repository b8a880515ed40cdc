// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/flight_files.h"

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/distributed/environment.h"

namespace transom {
namespace {

constexpr uint64_t kMostFlightBytes = uint64_t{256} << 20;

// The value of a key, of the type that is wanted.
template <typename Value>
Value value_of(const Json& json, const char* key, const fs::path& path) {
  if (json.is_object() && json.contains(key)) {
    const Json& item = json.at(key);
    bool fits = false;
    if constexpr (std::is_same_v<Value, std::string>) fits = item.is_string();
    else if constexpr (std::is_same_v<Value, double>) fits = item.is_number();
    else fits = item.is_number_unsigned();
    if (fits) return item.get<Value>();
  }
  fail("{}: {}: expected a {}, which transom writes when a run fails", path.string(), key,
       std::is_same_v<Value, std::string> ? "text" : "number");
}

}  // namespace

fs::path flight_file(const fs::path& directory, int64_t rank) {
  return directory / fmt::format("flight_{}.json", rank);
}

void write_flight_file(const fs::path& directory, const FlightFile& file) {
  std::error_code error;
  if (!fs::is_directory(directory, error) && !fs::create_directory(directory, error) && error)
    fail("{}: cannot be made: {}", directory.string(), error.message());
  Json records = Json::array();
  for (const FlightRecord& record : file.records)
    records.push_back({{"group", record.group},
                       {"number", record.number},
                       {"operation", record.operation},
                       {"dtype", name_of(record.dtype)},
                       {"bytes", record.bytes},
                       {"started", record.started},
                       {"ended", record.ended}});
  const Json json{{"rank", file.rank},     {"ranks", file.ranks},     {"host", file.host},
                  {"reason", file.reason}, {"written", file.written}, {"records", std::move(records)}};
  write_file(flight_file(directory, file.rank), dump_json(json, 1) + "\n");
}

FlightFile read_flight_file(const fs::path& path) {
  const Json json = parse_json(read_file(path, kMostFlightBytes), path.string());
  FlightFile file;
  const auto rank = value_of<uint64_t>(json, "rank", path), ranks = value_of<uint64_t>(json, "ranks", path);
  if (ranks > static_cast<uint64_t>(kMostRanks) || rank >= ranks)
    fail("{}: rank: expected a number below ranks, and that at most {}, found {} of {}", path.string(), kMostRanks,
         rank, ranks);
  file.rank = static_cast<int64_t>(rank);
  file.ranks = static_cast<int64_t>(ranks);
  file.host = value_of<std::string>(json, "host", path);
  file.reason = value_of<std::string>(json, "reason", path);
  file.written = value_of<double>(json, "written", path);
  if (!json.contains("records") || !json["records"].is_array())
    fail("{}: records: expected a list of collectives", path.string());
  for (const Json& item : json["records"]) {
    FlightRecord record;
    record.group = value_of<std::string>(item, "group", path);
    record.number = value_of<uint64_t>(item, "number", path);
    record.operation = value_of<std::string>(item, "operation", path);
    record.dtype = parse_dtype(value_of<std::string>(item, "dtype", path));
    record.bytes = value_of<uint64_t>(item, "bytes", path);
    record.started = value_of<double>(item, "started", path);
    record.ended = value_of<double>(item, "ended", path);
    file.records.push_back(std::move(record));
  }
  return file;
}

}  // namespace transom
