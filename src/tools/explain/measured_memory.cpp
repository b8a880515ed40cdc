// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/measured_memory.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/device.h"
#include "runtime/programs/compilation.h"
#include "transom/device.h"

namespace transom {
namespace {

// What the device has in use for a buffer: sizes are rounded up, by rules of its own.
class Blocks {
 public:
  explicit Blocks(Device& device) : device_(device) {}
  int64_t of(int64_t bytes) {
    if (bytes == 0) return 0;
    const auto [place, is_new] = known_.try_emplace(bytes, 0);
    if (!is_new) return place->second;
    const uint64_t before = device_.memory_use().in_use;
    const auto buffer = device_.allocate(static_cast<size_t>(bytes));
    return place->second = static_cast<int64_t>(device_.memory_use().in_use - before);
  }
  int64_t of(const Tensor& value) { return of(bytes_of(value.type())); }

 private:
  Device& device_;
  std::map<int64_t, int64_t> known_;
};

void count(const Compilation& compilation, Device& device, Blocks& blocks, MeasuredMemory& most) {
  MeasuredMemory memory = most;
  memory.inputs = memory.in_place = memory.results = 0;
  for (size_t i = 0; i < compilation.graph.inputs.size(); ++i) {
    const Tensor& input = compilation.graph.inputs[i];
    const bool stays = i < compilation.frozen.size() && compilation.frozen[i] && device.table().buffer_import;
    (stays ? memory.in_place : memory.inputs) += stays ? bytes_of(input.type()) : blocks.of(input);
  }
  for (size_t o = 0; o < compilation.graph.outputs.size(); ++o)
    if (o >= compilation.plan.donor.size() || compilation.plan.donor[o] < 0)
      memory.results += blocks.of(compilation.graph.outputs[o]);
  // The arena of a device is as large as its largest program needs; what the device takes beside it, it tells.
  memory.arena = static_cast<int64_t>(compilation.executable->temporary_bytes());
  if (!device.has(TRANSOM_DEVICE_PLANS_MEMORY))
    memory.arena += blocks.of(compilation.plan.arena_bytes) - compilation.plan.arena_bytes;
  if (memory.planned() > most.planned()) most = memory;
}

}  // namespace

MeasuredMemory measure_memory(const BenchOptions& options) {
  MeasuredMemory memory;
  memory.device = device_name();
  const std::shared_ptr<Device> device = default_device();
  memory.emulated = device->has(TRANSOM_DEVICE_EMULATED);
  const RecordCompilations record;
  const std::unique_ptr<Workload> workload = make_workload(options);
  // The second step of a training may be another program than the first one.
  for (int i = 0; i < 3; ++i) workload->run();
  transom_error error{};
  device->expect_ok(device->table().memory_reset_peak(device->handle(), &error), error);
  workload->run();
  memory.measured = static_cast<int64_t>(memory_use().peak);
  Blocks blocks(*device);
  for (const auto& compilation : record.compilations()) count(*compilation, *device, blocks, memory);
  if (memory.planned() == 0 || memory.measured == 0)
    fail("{}: expected a job that this process has not compiled before, on a device that counts its memory; found {}",
         options.model, memory.device);
  return memory;
}

std::string measured_memory_table(const MeasuredMemory& memory) {
  const auto row = [](const char* name, int64_t bytes) {
    return fmt::format("{:<34} {:>14} {:>10.2f} MB\n", name, bytes, static_cast<double>(bytes) / 1e6);
  };
  return fmt::format("memory on {}{}, from the graph after all passes\n", memory.device,
                     memory.emulated ? " (emulated)" : "") +
         row("weights in memory of the host", memory.in_place) + row("weights, states and inputs", memory.inputs) +
         row("within a run", memory.arena) + row("results", memory.results) + row("planned", memory.planned()) +
         row("measured", memory.measured) +
         fmt::format("planned is {:+.2f} % off what was measured\n", 100 * (memory.ratio() - 1));
}

Json measured_memory_json(const MeasuredMemory& memory) {
  return {{"device", memory.device},           {"emulated", memory.emulated},    {"input_bytes", memory.inputs},
          {"arena_bytes", memory.arena},       {"result_bytes", memory.results}, {"planned_bytes", memory.planned()},
          {"measured_bytes", memory.measured}, {"ratio", memory.ratio()}};
}

}  // namespace transom
