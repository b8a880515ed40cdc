// SPDX-License-Identifier: Apache-2.0
#include "races.h"

#include <algorithm>

#include "call.h"

namespace synapse_emulator {
namespace {

constexpr size_t kMostAccesses = 4096;  // older ones are forgotten

void merge(std::map<uint64_t, uint64_t>& into, const std::map<uint64_t, uint64_t>& from) {
  for (const auto& [stream, number] : from) into[stream] = std::max(into[stream], number);
}

uint64_t of(const std::map<uint64_t, uint64_t>& clock, uint64_t stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

}  // namespace

bool Races::is_after(uint64_t stream, const Access& earlier) {
  return earlier.stream == stream || of(host_, earlier.stream) >= earlier.number ||
         of(clocks_[stream], earlier.stream) >= earlier.number;
}

std::string Races::access(uint64_t id, uint64_t number, const std::vector<Range>& ranges, const char* what) {
  const std::lock_guard lock(mutex_);
  std::string result;
  std::erase_if(accesses_, [&](const Access& old) { return of(host_, old.stream) >= old.number; });
  for (const Access& old : accesses_) {
    if (is_after(id, old)) continue;
    for (const Range& mine : ranges) {
      for (const Range& theirs : old.ranges) {
        if (result.empty() && (mine.written || theirs.written) && mine.begin < theirs.end && theirs.begin < mine.end)
          result = join(what, " on stream ", id, mine.written ? " writes [" : " reads [", mine.begin, ", ", mine.end,
                        ") with no order after ", old.what, " on stream ", old.stream, ", which ",
                        theirs.written ? "writes" : "reads", " [", theirs.begin, ", ", theirs.end, ")");
      }
    }
  }
  accesses_.push_back({id, number, ranges, what});
  if (accesses_.size() > kMostAccesses) accesses_.pop_front();
  return result;
}

std::map<uint64_t, uint64_t> Races::seen(uint64_t id, uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::map<uint64_t, uint64_t> result = clocks_[id];
  merge(result, host_);
  result[id] = std::max(result[id], number);
  return result;
}

void Races::ordered(uint64_t id, const std::map<uint64_t, uint64_t>& seen) {
  const std::lock_guard lock(mutex_);
  merge(clocks_[id], seen);
}

void Races::host_ordered(const std::map<uint64_t, uint64_t>& seen) {
  const std::lock_guard lock(mutex_);
  merge(host_, seen);
}

void Races::forget(uint64_t id) {
  const std::lock_guard lock(mutex_);
  clocks_.erase(id);
  std::erase_if(accesses_, [&](const Access& old) { return old.stream == id; });
}

std::string Races::in_use(uint64_t begin, uint64_t end) {
  const std::lock_guard lock(mutex_);
  for (const Access& old : accesses_) {
    if (of(host_, old.stream) >= old.number) continue;
    for (const Range& range : old.ranges)
      if (range.begin < end && begin < range.end) return join(old.what, " on stream ", old.stream);
  }
  return "";
}

void Races::reset() {
  const std::lock_guard lock(mutex_);
  clocks_.clear();
  host_.clear();
  accesses_.clear();
}

}  // namespace synapse_emulator
