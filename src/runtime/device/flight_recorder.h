// SPDX-License-Identifier: Apache-2.0
// The last collectives of this process, as PyTorch's flight recorder keeps them: what each was, when it was started and
// when it was seen to be done. What a run that stands still was waiting for can be read from it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transom/device_plugin.h"
#include "transom/dtype.h"

namespace transom {

class Device;

// Rising ranks as one word: "0-7", "0-14:2", "0,3,7".
std::string text_of_ranks(const std::vector<int64_t>& ranks);

struct FlightRecord {
  std::string group;      // its ranks (text_of_ranks), or "2>3" for messages from rank 2 to rank 3
  uint64_t number = 0;    // within the group, from 1: all of its ranks count alike
  std::string operation;  // "all_reduce"
  DType dtype = DType::kUInt8;
  uint64_t bytes = 0;
  double started = 0, ended = 0;  // seconds since 1970; ended 0: not yet seen

  std::string what() const;  // "all_reduce of 4096 bytes of f32"
};

// The group of what all ranks exchange over their store, whatever their devices do.
inline constexpr std::string_view kHostGroup = "host";

// How far a group has come, as this process sees it.
struct GroupProgress {
  uint64_t started = 0;  // the number of the last one
  uint64_t hash = 0;     // of the operations, types and sizes of all that were started
  FlightRecord waiting;  // the first that is not known to have ended; number 0: none
};

// Thread-safe. The device must outlive it. What has ended is seen where the thread that uses the device asks: at the
// next collective, and by look().
class FlightRecorder {
 public:
  // Keeps `size` records; those that have ended go first.
  explicit FlightRecorder(const Device& device, size_t size = 2000);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Called before a collective is issued; then issued(), with the stream that has it, or ended().
  uint64_t begin(std::string_view group, std::string_view operation, uint64_t bytes, DType dtype);
  void issued(uint64_t ticket, transom_stream* stream);
  void ended(uint64_t ticket);
  // For the thread that uses the device: which have ended since the last one was begun.
  void look();

  // In the order in which they were started.
  std::vector<FlightRecord> records();
  std::map<std::string, GroupProgress, std::less<>> progress();

 private:
  struct Entry {
    FlightRecord record;
    transom_event* event = nullptr;
    bool open = true;  // may still end
  };
  Entry* find(uint64_t ticket);
  void look_locked();
  bool has_ended(Entry& entry, double now);
  void close(Entry& entry);

  const Device& device_;
  size_t size_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
  uint64_t first_ = 1, next_ = 1;  // tickets of the first entry and of the next one
  struct Group {
    uint64_t started = 0, hash = 0;
    std::deque<uint64_t> open;  // tickets, which end in this order
  };
  std::vector<transom_event*> unused_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace transom
