// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/program.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/memory/shared_cache.h"
#include "base/terminal/log.h"
#include "runtime/device/communicator.h"
#include "runtime/programs/compilation.h"
#include "runtime/programs/node_support.h"

namespace transom {

Program::Program(std::shared_ptr<Device> device, const Graph& traced, const ProgramOptions& options)
    : device_(std::move(device)) {
  const ProfiledCompilation profiled;
  const std::shared_ptr<Compilation> record = RecordCompilations::active() ? std::make_shared<Compilation>() : nullptr;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto since = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  while (!executable_) {
    std::function<void(std::string_view, const Graph&)> observe;
    if (record) {
      record->passes.clear();
      observe = [&, from = Clock::now()](std::string_view name, const Graph& graph) mutable {
        record->passes.push_back({std::string(name), graph, since(from)});
        from = Clock::now();
      };
    }
    LoweredGraph lowered = lower(traced, model_of(device_, options.host_fallback), options, observe);
    if (log_topic("graphs")) log(LogLevel::kInfo, print_graph(lowered.graph));
    try {
      executable_ = make_executable(device_, lowered, record ? &record->description : nullptr);
    } catch (const NotSupported&) {
      // Once more, with what the device refuses on the host.
      if (!options.host_fallback || !NodeSupport::of(*device_).find_refused(device_, lowered.graph)) throw;
      continue;
    }
    whole_ = dynamic_cast<const DeviceProgram*>(executable_.get());
    sources_ = std::move(lowered.outputs);
    folded_ = std::move(lowered.folded);
    count_ = lowered.graph.nodes.size();
    if (!record) return;
    record->pieces = executable_->pieces();
    record->plan = std::move(lowered.plan);
    record->donated = std::move(lowered.donated);
    record->frozen = options.frozen;
    record->graph = std::move(lowered.graph);
    record->seconds = since(begin);
    record->executable = executable_;
    RecordCompilations::add(record);
  }
}

Buffers Program::with_folded(const Buffers& inputs) const {
  Buffers all = inputs;
  for (const FoldedConstant& value : folded_) {
    Buffers from;
    std::vector<uint64_t> key = {value.key.first, value.key.second};
    for (const size_t i : value.inputs) {
      from.push_back(inputs[i]);
      key.push_back(inputs[i]->id());
    }
    all.push_back(
        from.front()->derived(key, [&] { return Program(device_, value.graph, ProgramOptions()).run(from).front(); }));
  }
  return all;
}

// The constants are folded before the device is taken: that may compile, and others who wait for the same values hold
// their lock.
Buffers Program::run(const Buffers& inputs) const {
  for (const std::shared_ptr<Buffer>& input : inputs) input->expect_contents();
  const Buffers all = with_folded(inputs);  // an output may be what was folded
  return results(all, executable_->run(all));
}

size_t Program::memory_bytes() const {
  // Measured on small models: nodes, the executable's steps and their kernels take about 12 KiB a node.
  constexpr size_t kBytesOfNode = 12 << 10;
  return kBytesOfNode * (1 + count_) * (whole_ ? 1 : 2);
}

Buffers Program::results(const Buffers& inputs, const Buffers& outputs) const {
  Buffers results;
  for (const LoweredGraph::Source& source : sources_)
    results.push_back(source.is_input ? inputs[source.index] : outputs[source.index]);
  return results;
}

// ---- the cache

namespace {

using ProgramCache = SharedCache<GraphKey, const Program, GraphKeyHash>;

// Never destroyed: at the end of the process drivers may be gone before their programs.
ProgramCache& cache() {
  static ProgramCache& instance = *new ProgramCache("programs");
  return instance;
}

// What a program is compiled for: the types of a batch, which are those of inputs that are neither weights nor handed
// over to their updates. Where there are none of these, the others; where there is no input at all, what is made.
std::string purpose(const Graph& graph, const ProgramOptions& options) {
  std::vector<std::string> changing, donated, frozen, made;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    (options.frozen[i] ? frozen : options.donated[i] ? donated : changing).push_back(to_string(graph.inputs[i].type()));
  for (const Tensor& output : graph.outputs) made.push_back(to_string(output.type()));
  const auto listed = [](std::vector<std::string>& types) {
    constexpr size_t kMost = 8;
    if (types.size() > kMost) {
      const size_t more = types.size() - kMost;
      types.resize(kMost);
      types.push_back(fmt::format("{} more", more));
    }
    return fmt::format("({})", fmt::join(types, ", "));
  };
  if (!changing.empty()) return listed(changing);
  if (!donated.empty()) return "donated " + listed(donated);
  if (!frozen.empty()) return "frozen " + listed(frozen);
  return "constants alone, giving " + listed(made);
}

}  // namespace

std::shared_ptr<const Program> find_program(const std::shared_ptr<Device>& device, const Graph& graph,
                                            const ProgramOptions& options) {
  GraphKey key = structural_key(graph);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    key.mix(options.donated[i] + 2 * options.frozen[i] + 4 * (i < options.restorable.size() && options.restorable[i]));
  key.mix(reinterpret_cast<uintptr_t>(device.get()));
  key.mix(device->communicator() ? device->communicator()->number() : 0);
  key.mix(options.host_fallback);
  return cache().find(key, [&] {
    const auto begin = std::chrono::steady_clock::now();
    auto program = std::make_shared<const Program>(device, graph, options);
    if (log_topic("recompiles"))
      log(LogLevel::kInfo,
          fmt::format("compiled a program of {} nodes, executables: {}, for {} in {:.1f} ms ({} so far)",
                      graph.nodes.size(), program->executables(), purpose(graph, options),
                      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
                      cache().use().misses));
    return program;
  });
}

void forget_programs(const std::vector<std::shared_ptr<const Program>>& programs) {
  if (programs.empty()) return;
  cache().erase_if([&](const GraphKey&, const std::shared_ptr<const Program>& program) {
    const auto listed = std::count(programs.begin(), programs.end(), program);
    return listed > 0 && program.use_count() == listed + 1;
  });
}

CacheUse program_cache_use() { return cache().use(); }
void trim_program_cache() { cache().trim(); }

}  // namespace transom
