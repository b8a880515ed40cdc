// SPDX-License-Identifier: Apache-2.0
// How fast a client sends and takes. Private to this folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace transom::serve {

// Of a time in which a client sends or takes at least so many bytes; then the next one begins.
class Pace {
 public:
  void start() { runs_ = true, bytes_ = 0; }
  void stop() { runs_ = false; }
  bool runs() const { return runs_; }
  // Whether enough has come or gone, so that the next time begins.
  bool reaches(int64_t least, size_t count) {
    bytes_ += static_cast<int64_t>(count);
    if (bytes_ < least) return false;
    bytes_ = 0;
    return true;
  }

 private:
  bool runs_ = false;
  int64_t bytes_ = 0;
};

// What a client goes on sending behind an answer that ends the connection is read at a pace that others do not notice.
class Linger {
 public:
  bool is_over() const { return bytes_ > kMost; }
  // Whether so much has come since the last pause that it is time for another.
  bool wants_pause(size_t count) {
    bytes_ += count;
    if (bytes_ < pause_at_) return false;
    pause_at_ = bytes_ + kAtOnce;
    return true;
  }
  static constexpr std::chrono::milliseconds kPause{10};

 private:
  static constexpr size_t kMost = 64u << 20, kAtOnce = 256u << 10;
  size_t bytes_ = 0, pause_at_ = kAtOnce;
};

}  // namespace transom::serve
