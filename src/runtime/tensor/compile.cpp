// SPDX-License-Identifier: Apache-2.0
#include "transom/compile.h"

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/memory/shared_cache.h"
#include "base/terminal/log.h"
#include "base/threads/interrupt.h"
#include "graph/ir/claimed_graph.h"
#include "runtime/programs/captured_program.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/caches.h"

namespace transom {
namespace {

// The function for one signature. What another thread uses outlives its place in the cache.
struct Trace {
  std::shared_ptr<const Program> program;
  std::vector<Type> results;
  std::vector<std::shared_ptr<Buffer>> captured;  // inputs after the arguments: what the function read besides them
  std::vector<bool> donated;
  std::mutex turn;  // of callers of `replayed`, which is made by the first
  std::unique_ptr<CapturedProgram> replayed;
  std::atomic<size_t> replayed_bytes{0};

  // References to a buffer that do not count as somebody's holding it.
  long own_references(const std::shared_ptr<Buffer>& buffer) const {
    return replayed ? replayed->references_to(buffer) : 0;
  }
  size_t memory_bytes() const { return program->memory_bytes() + replayed_bytes; }
};

// Of all functions. Never destroyed: see the cache of programs.
using TraceCache = SharedCache<std::string, Trace>;
TraceCache& cache() {
  static TraceCache& instance = *new TraceCache("traces");
  return instance;
}

std::string next_prefix() {
  static std::atomic<uint64_t> last{0};
  return std::to_string(++last) + ":";
}

}  // namespace

struct CompiledFunction::State {
  TensorFunction function;
  CompileOptions options;
  const std::string prefix = next_prefix();  // of the keys of its traces
  std::atomic<size_t> traces{0};

  ~State() { take_traces(); }

  std::vector<std::shared_ptr<Trace>> take_traces() const {
    return cache().erase_if(
        [&](const std::string& key, const std::shared_ptr<Trace>&) { return key.starts_with(prefix); });
  }

  std::shared_ptr<Trace> trace(const std::vector<Type>& types, const std::shared_ptr<Device>& device) const {
    // Others may wait for the same trace: one caller's stop is not theirs.
    const InterruptScope uninterrupted{std::stop_token()};
    // While a function is traced its operations only gather, whatever the mode.
    const ModeScope scope(mode() == Mode::kEager ? Mode::kLazy : mode());
    std::vector<Tensor> arguments;
    for (const Type& type : types) arguments.push_back(make_input(type));
    const std::vector<Tensor> results = function(arguments);
    const ClaimedGraph claimed([&] { return make_graph(results, arguments); });
    const Graph& graph = claimed.graph();
    auto made = std::make_shared<Trace>();
    for (const Tensor& result : results) made->results.push_back(result.type());
    ProgramOptions program;
    program.donated.resize(graph.inputs.size());
    program.frozen.resize(graph.inputs.size());
    for (const size_t i : options.donated) {
      if (i >= arguments.size())
        fail("{}: argument {} is to be donated, but there are {}", options.name, i, arguments.size());
      program.donated[i] = true;
    }
    for (size_t i = arguments.size(); i < graph.inputs.size(); ++i) {
      made->captured.push_back(buffer_of(graph.inputs[i], *device));
      program.frozen[i] = made->captured.back()->frozen();
    }
    made->donated = program.donated;
    made->program = find_program(device, graph, program);
    return made;
  }
};

CompiledFunction::CompiledFunction(TensorFunction function, CompileOptions options)
    : state_(std::make_shared<State>()) {
  state_->function = std::move(function);
  state_->options = std::move(options);
}

size_t CompiledFunction::traces() const { return state_->traces; }

void CompiledFunction::forget() const {
  std::vector<std::shared_ptr<const Program>> programs;
  for (const std::shared_ptr<Trace>& trace : state_->take_traces()) programs.push_back(trace->program);
  forget_programs(programs);
}

std::vector<Tensor> CompiledFunction::operator()(std::vector<Tensor> arguments) const {
  check_interrupted();
  eval(arguments);
  const std::shared_ptr<Device> device = device_of(arguments);
  std::vector<Type> types;
  std::vector<std::shared_ptr<Buffer>> inputs;
  for (const Tensor& argument : arguments) {
    types.push_back(argument.type());
    inputs.push_back(buffer_of(argument, *device));
  }
  note_released_uses(arguments);
  arguments.clear();
  const std::string signature = to_string(types);
  const std::string key = fmt::format("{}{}:{}", state_->prefix, fmt::ptr(device.get()), signature);
  const std::shared_ptr<Trace> trace = cache().find(key, [&] {
    std::shared_ptr<Trace> made = state_->trace(types, device);
    const size_t so_far = ++state_->traces;
    if (log_topic("recompiles"))
      log(LogLevel::kInfo,
          fmt::format("{}: traced for ({}); {} signatures so far", state_->options.name, signature, so_far));
    return made;
  });
  std::unique_lock<std::mutex> turn;
  if (state_->options.capture) turn = std::unique_lock(trace->turn);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (trace->donated[i] &&
        (!inputs[i]->is_writable() || inputs[i].use_count() > 1 + trace->own_references(inputs[i]))) {
      std::vector<std::byte> bytes(inputs[i]->bytes());
      inputs[i]->read(bytes);
      inputs[i] = device->upload(bytes);
    }
  const size_t count = inputs.size();
  inputs.insert(inputs.end(), trace->captured.begin(), trace->captured.end());
  if (state_->options.capture && !trace->replayed) {
    std::vector<bool> fixed(count);
    fixed.resize(inputs.size(), true);
    trace->replayed = std::make_unique<CapturedProgram>(trace->program, inputs, fixed);
    trace->replayed_bytes = trace->replayed->memory_bytes();
    cache().resized(key, *trace);
  }
  const std::vector<std::shared_ptr<Buffer>> buffers =
      trace->replayed ? trace->replayed->replay(inputs) : trace->program->run(inputs);
  std::vector<Tensor> results;
  for (size_t i = 0; i < buffers.size(); ++i) {
    results.push_back(make_input(trace->results[i], buffers[i]));
    results.back().node()->released = true;  // nobody else knows of it yet
  }
  return results;
}

CacheStatistics cache_statistics() { return {program_cache_use(), cache().use()}; }

void set_cache_limit(size_t bytes) {
  set_limit_of_caches(bytes);
  trim_program_cache();
  cache().trim();
}

}  // namespace transom
