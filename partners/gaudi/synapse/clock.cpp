// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <algorithm>
#include <sstream>

#include "call.h"
#include "configuration.h"

namespace synapse_emulator {
namespace {

constexpr const char* kNames[kEngines] = {"MME", "TPC", "DMA", "NIC"};

}  // namespace

double Clock::work(Stream& stream, Engine engine, int lane, double seconds) {
  const std::lock_guard lock(mutex_);
  const int which = static_cast<int>(engine);
  double& ready = engine_ready_[which][lane];
  ready = std::max(ready, stream.ready_seconds) + seconds;
  stream.ready_seconds = ready;
  busy_[which] += seconds;
  if (configuration().timeline && seconds > 0) timeline_.push_back({kNames[which], ready - seconds, ready});
  end_ = std::max(end_, ready);
  return ready;
}

double Clock::launch(Stream& stream, const Cost& cost) {
  const std::lock_guard lock(mutex_);
  double& ready = engine_ready_[static_cast<int>(Engine::kMme)][0];  // one recipe at a time has the compute engines
  ready = std::max(ready, stream.ready_seconds) + cost.span;
  stream.ready_seconds = ready;
  for (int engine = 0; engine < kEngines; ++engine) busy_[engine] += cost.seconds[engine];
  if (configuration().timeline && cost.span > 0) timeline_.push_back({"launch", ready - cost.span, ready});
  end_ = std::max(end_, ready);
  return ready;
}

void Clock::wait(Stream& stream, double seconds) {
  const std::lock_guard lock(mutex_);
  stream.ready_seconds = std::max(stream.ready_seconds, seconds);
}

double Clock::now() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

void Clock::count(const char* what, uint64_t number) {
  const std::lock_guard lock(mutex_);
  counts_[what] += number;
}

std::string Clock::report(uint64_t highest_memory) const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out.precision(9);
  out << "{\n  \"emulated\": true,\n  \"emulator\": \"Transom partners/gaudi/synapse\",\n  \"generation\": \""
      << configuration().generation.name << "\",\n  \"simulated_seconds\": " << end_ << ",\n  \"engines\": {\n";
  for (int engine = 0; engine < kEngines; ++engine)
    out << "    \"" << kNames[engine] << "\": {\"busy_seconds\": " << busy_[engine]
        << ", \"utilisation\": " << (end_ > 0 ? busy_[engine] / end_ : 0) << "}" << (engine + 1 < kEngines ? "," : "")
        << "\n";
  out << "  },\n  \"counts\": {";
  const char* comma = "";
  for (const auto& [name, number] : counts_) {
    out << comma << "\"" << name << "\": " << number;
    comma = ", ";
  }
  out << "},\n";
  if (configuration().timeline) {
    out << "  \"timeline\": [";
    comma = "";
    for (const Entry& entry : timeline_) {
      out << comma << "\n    [\"" << entry.what << "\", " << entry.begin << ", " << entry.end << "]";
      comma = ",";
    }
    out << "],\n";
  }
  out << "  \"highest_memory_bytes\": " << highest_memory << ",\n  \"rule_violations\": " << violation_count()
      << "\n}\n";
  return out.str();
}

void Clock::reset() {
  const std::lock_guard lock(mutex_);
  end_ = 0;
  counts_.clear();
  timeline_.clear();
  for (int engine = 0; engine < kEngines; ++engine) {
    busy_[engine] = 0;
    std::fill(std::begin(engine_ready_[engine]), std::end(engine_ready_[engine]), 0.0);
  }
}

}  // namespace synapse_emulator
