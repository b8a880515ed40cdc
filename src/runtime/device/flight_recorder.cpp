// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/flight_recorder.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "runtime/device/device.h"

namespace transom {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

}  // namespace

std::string text_of_ranks(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    const int64_t step = end < ranks.size() ? ranks[end] - ranks[i] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    const bool is_run = end - i > 2 || (end - i == 2 && step == 1);
    if (!is_run) end = i + 1;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (is_run) text += fmt::format("-{}", ranks[end - 1]);
    if (is_run && step > 1) text += fmt::format(":{}", step);
    i = end;
  }
  return text;
}

std::string FlightRecord::what() const {
  return bytes == 0 ? operation : fmt::format("{} of {} bytes of {}", operation, bytes, name_of(dtype));
}

FlightRecorder::FlightRecorder(const Device& device, size_t size) : device_(device), size_(size) {}

FlightRecorder::~FlightRecorder() {
  for (const Entry& entry : entries_)
    if (entry.event) device_.table().event_destroy(entry.event);
  for (transom_event* event : unused_) device_.table().event_destroy(event);
}

uint64_t FlightRecorder::begin(std::string_view name, std::string_view operation, uint64_t bytes, DType dtype) {
  const std::lock_guard lock(mutex_);
  look_locked();
  while (entries_.size() >= size_) {
    close(entries_.front());
    entries_.pop_front();
    ++first_;
  }
  const auto found = groups_.find(name);
  Group& group = found != groups_.end() ? found->second : groups_[std::string(name)];
  ++group.started;
  for (const char c : operation) group.hash = mixed(group.hash, static_cast<unsigned char>(c));
  group.hash = mixed(mixed(group.hash, bytes), static_cast<uint64_t>(dtype));
  entries_.push_back(
      {{std::string(name), group.started, std::string(operation), dtype, bytes, seconds_since_1970(), 0}});
  group.open.push_back(next_);
  return next_++;
}

FlightRecorder::Entry* FlightRecorder::find(uint64_t ticket) {
  return ticket >= first_ && ticket < next_ ? &entries_[ticket - first_] : nullptr;
}

void FlightRecorder::close(Entry& entry) {
  if (entry.event) unused_.push_back(std::exchange(entry.event, nullptr));
  entry.open = false;
}

void FlightRecorder::issued(uint64_t ticket, transom_stream* stream) {
  const transom_plugin& table = device_.table();
  const std::lock_guard lock(mutex_);
  Entry* entry = find(ticket);
  if (!entry || !table.event_query) return;
  transom_error error{};
  transom_event* event = nullptr;
  if (!unused_.empty()) {
    event = unused_.back();
    unused_.pop_back();
  } else if (table.event_create(device_.handle(), &event, &error) != TRANSOM_OK) {
    return;
  }
  entry->event = event;
  if (table.event_record(event, stream, &error) != TRANSOM_OK) close(*entry);
}

void FlightRecorder::ended(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(ticket);
  if (!entry) return;
  entry->record.ended = seconds_since_1970();
  close(*entry);
}

// A collective that failed never ends, but is no longer waited for.
bool FlightRecorder::has_ended(Entry& entry, double now) {
  if (!entry.open) return true;
  if (!entry.event) return false;
  int32_t done = 0;
  transom_error error{};
  const bool failed = device_.table().event_query(entry.event, &done, &error) != TRANSOM_OK;
  if (!failed && !done) return false;
  if (!failed) entry.record.ended = now;
  close(entry);
  return true;
}

void FlightRecorder::look() {
  const std::lock_guard lock(mutex_);
  look_locked();
}

void FlightRecorder::look_locked() {
  const double now = seconds_since_1970();
  for (auto& [name, group] : groups_)
    while (!group.open.empty()) {
      Entry* entry = find(group.open.front());
      if (entry && !has_ended(*entry, now)) break;
      group.open.pop_front();
    }
}

std::vector<FlightRecord> FlightRecorder::records() {
  const std::lock_guard lock(mutex_);
  std::vector<FlightRecord> all;
  for (const Entry& entry : entries_) all.push_back(entry.record);
  return all;
}

std::map<std::string, GroupProgress, std::less<>> FlightRecorder::progress() {
  const std::lock_guard lock(mutex_);
  std::map<std::string, GroupProgress, std::less<>> all;
  for (const auto& [name, group] : groups_) {
    GroupProgress& progress = all[name];
    progress.started = group.started;
    progress.hash = group.hash;
    for (const uint64_t ticket : group.open)
      if (const Entry* entry = find(ticket); entry && entry->open) {
        progress.waiting = entry->record;
        break;
      }
  }
  return all;
}

}  // namespace transom
