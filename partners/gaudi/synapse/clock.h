// SPDX-License-Identifier: Apache-2.0
// Simulated time. Each piece of work takes as long as the published peaks of the generation allow; streams and engines
// are busy accordingly. Values of tensors never depend on it. It knows nothing of the host's time: a report tells how
// the card would be loaded if the host were infinitely fast.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "stream.h"

namespace synapse_emulator {

enum class Engine { kMme, kTpc, kDma, kNic };
inline constexpr int kEngines = 4;

// What one launch of a recipe costs.
struct Cost {
  double seconds[kEngines] = {};  // busy
  double span = 0;                // from its start to its end
};

class Clock {
 public:
  // Work on a stream, after all that the stream and the engine have; `lane` tells apart engines that work in parallel
  // (directions of the DMA). Returns its end.
  double work(Stream& stream, Engine engine, int lane, double seconds);
  double launch(Stream& stream, const Cost& cost);
  void wait(Stream& stream, double seconds);
  double now() const;

  void count(const char* what, uint64_t number = 1);
  // {"emulated": true, ...}
  std::string report(uint64_t highest_memory) const;
  void reset();

 private:
  mutable std::mutex mutex_;
  double end_ = 0;
  double busy_[kEngines] = {};
  double engine_ready_[kEngines][3] = {};
  std::map<std::string, uint64_t> counts_;
  // Of each work, where the configuration asks for it: an engine, or a recipe ("launch"), and when it was busy.
  struct Entry {
    const char* what;
    double begin, end;
  };
  std::vector<Entry> timeline_;
};

}  // namespace synapse_emulator
