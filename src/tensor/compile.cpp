// SPDX-License-Identifier: Apache-2.0
#include "transom/compile.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "runtime/captured_program.h"
#include "tensor/evaluate.h"

namespace transom {
namespace {

// While a function is traced its operations only gather, whatever the mode.
class TraceScope {
 public:
  TraceScope() : before_(mode()) {
    if (before_ == Mode::kEager) set_mode(Mode::kLazy);
  }
  ~TraceScope() {
    if (before_ == Mode::kEager) set_mode(before_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Mode before_;
};

// The function for one signature.
struct Trace {
  std::shared_ptr<const Program> program;
  std::vector<Type> results;
  std::vector<std::shared_ptr<Buffer>> captured;  // inputs after the arguments: what the function read besides them
  std::vector<bool> donated;
  std::unique_ptr<CapturedProgram> replayed;

  // References to a buffer that do not count as somebody's holding it.
  long own_references(const std::shared_ptr<Buffer>& buffer) const {
    return replayed ? replayed->references_to(buffer) : 0;
  }
};

}  // namespace

struct CompiledFunction::State {
  TensorFunction function;
  CompileOptions options;
  std::mutex mutex;
  // Guards: the device, and the types of the arguments as text.
  std::map<std::pair<const Device*, std::string>, Trace> traces;

  Trace trace(const std::vector<Type>& types, const std::shared_ptr<Device>& device) const {
    const TraceScope scope;
    std::vector<Tensor> arguments;
    for (const Type& type : types) arguments.push_back(make_input(type));
    const std::vector<Tensor> results = function(arguments);
    const Graph graph = make_graph(results, arguments);
    Trace made;
    for (const Tensor& result : results) made.results.push_back(result.type());
    ProgramOptions program;
    program.donated.resize(graph.inputs.size());
    program.frozen.resize(graph.inputs.size());
    for (const size_t i : options.donated) {
      if (i >= arguments.size())
        fail("{}: argument {} is to be donated, but there are {}", options.name, i, arguments.size());
      program.donated[i] = true;
    }
    for (size_t i = arguments.size(); i < graph.inputs.size(); ++i) {
      made.captured.push_back(buffer_of(graph.inputs[i]));
      program.frozen[i] = made.captured.back()->frozen();
    }
    made.donated = program.donated;
    made.program = find_program(device, graph, program);
    return made;
  }
};

CompiledFunction::CompiledFunction(TensorFunction function, CompileOptions options)
    : state_(std::make_shared<State>()) {
  state_->function = std::move(function);
  state_->options = std::move(options);
}

size_t CompiledFunction::traces() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traces.size();
}

std::vector<Tensor> CompiledFunction::operator()(std::vector<Tensor> arguments) const {
  const std::lock_guard lock(state_->mutex);
  eval(arguments);
  std::vector<Type> types;
  std::vector<std::shared_ptr<Buffer>> inputs;
  for (const Tensor& argument : arguments) {
    types.push_back(argument.type());
    inputs.push_back(buffer_of(argument));
  }
  arguments.clear();
  const std::shared_ptr<Device> device = default_device();
  const auto [place, fresh] = state_->traces.try_emplace({device.get(), to_string(types)});
  Trace& trace = place->second;
  if (fresh) {
    try {
      trace = state_->trace(types, device);
    } catch (...) {
      state_->traces.erase(place);
      throw;
    }
    if (log_topic("recompiles"))
      log(LogLevel::kInfo, fmt::format("{}: traced for ({}); {} signatures so far", state_->options.name,
                                       to_string(types), state_->traces.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (trace.donated[i] && (inputs[i]->frozen() || inputs[i].use_count() > 1 + trace.own_references(inputs[i]))) {
      std::vector<std::byte> bytes(inputs[i]->bytes());
      inputs[i]->read(bytes);
      inputs[i] = device->upload(bytes);
    }
  const size_t count = inputs.size();
  inputs.insert(inputs.end(), trace.captured.begin(), trace.captured.end());
  if (state_->options.capture && !trace.replayed) {
    std::vector<bool> fixed(count);
    fixed.resize(inputs.size(), true);
    trace.replayed = std::make_unique<CapturedProgram>(trace.program, inputs, fixed);
  }
  const std::vector<std::shared_ptr<Buffer>> buffers =
      trace.replayed ? trace.replayed->replay(inputs) : trace.program->run(inputs);
  std::vector<Tensor> results;
  for (size_t i = 0; i < buffers.size(); ++i) results.push_back(make_input(trace.results[i], buffers[i]));
  return results;
}

}  // namespace transom
