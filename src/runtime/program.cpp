// SPDX-License-Identifier: Apache-2.0
#include "runtime/program.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "base/shared_cache.h"
#include "passes/memory_plan.h"
#include "passes/partition.h"
#include "passes/passes.h"
#include "passes/updates_last.h"
#include "runtime/collective_program.h"
#include "runtime/compilation.h"
#include "runtime/graph_view.h"

namespace transom {
namespace {

Supports supported_by(Device& device) {
  return [&device](const Node& node) {
    if (is_collective(node)) return device.communicator() != nullptr;  // the host sees to it; no device is asked
    std::vector<transom_value> values;
    for (const Tensor& input : node.inputs)
      values.push_back({.dtype = static_cast<int32_t>(input.dtype()),
                        .rank = static_cast<int32_t>(input.rank()),
                        .shape = input.shape().data(),
                        .arena_offset = -1});
    const std::vector<transom_attribute> attributes = attribute_view(node.attributes);
    const std::string name(node.operation->name);
    return device.table().claims(device.handle(), name.c_str(), values.data(), values.size(), attributes.data(),
                                 attributes.size()) != 0;
  };
}

// Outputs that the executable makes: each once, none of them an input.
Graph with_distinct_outputs(Graph graph) {
  TensorSet seen(graph.inputs.begin(), graph.inputs.end());
  std::vector<Tensor> distinct;
  for (const Tensor& output : graph.outputs)
    if (seen.insert(output).second) distinct.push_back(output);
  graph.outputs = std::move(distinct);
  return graph;
}

}  // namespace

Program::Program(std::shared_ptr<Device> device, const Graph& traced, const ProgramOptions& options)
    : device_(std::move(device)) {
  const CompilerScope compiler;
  const ProfiledCompilation profiled;
  const std::shared_ptr<Compilation> record = RecordCompilations::active() ? std::make_shared<Compilation>() : nullptr;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto since = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  PassOptions passes{.supports = supported_by(*device_), .observe = nullptr};
  if (record)
    passes.observe = [&, from = begin](std::string_view name, const Graph& graph) mutable {
      record->passes.push_back({std::string(name), graph, since(from)});
      from = Clock::now();
    };
  std::vector<bool> frozen = options.frozen;
  frozen.resize(traced.inputs.size());
  FoldedGraph folded = fold_constants(isolate(traced), frozen);
  folded_ = std::move(folded.values);
  ProgramOptions all = options;
  all.donated.resize(folded.graph.inputs.size());
  all.restorable.resize(folded.graph.inputs.size());
  frozen.resize(folded.graph.inputs.size(), true);  // what is folded is frozen too
  all.frozen = std::move(frozen);
  compile(run_passes(std::move(folded.graph), passes), all, record.get());
  if (!record) return;
  record->seconds = since(begin);
  RecordCompilations::add(record);
}

Program::Program(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options, AlreadyLowered)
    : device_(std::move(device)) {
  const CompilerScope compiler;
  compile(isolate(graph), options, nullptr);
}

void Program::compile(const Graph& lowered, const ProgramOptions& options, Compilation* record) {
  std::vector<bool> donated = options.donated;
  donated.resize(lowered.inputs.size());
  restorable_ = options.restorable;
  restorable_.resize(lowered.inputs.size());
  const auto [graph, first_update] = updates_last(with_distinct_outputs(lowered), donated, restorable_);
  TensorMap<size_t> input_index, output_index;
  for (size_t i = 0; i < graph.inputs.size(); ++i) input_index.emplace(graph.inputs[i], i);
  for (size_t o = 0; o < graph.outputs.size(); ++o) output_index.emplace(graph.outputs[o], o);
  for (const Tensor& output : lowered.outputs) {
    const auto input = input_index.find(output);
    sources_.push_back(input != input_index.end() ? Source{true, input->second}
                                                  : Source{false, output_index.at(output)});
    if (sources_.back().is_input) donated[sources_.back().index] = false;  // it is handed out, so it must stay
  }
  for (const Tensor& output : graph.outputs)
    output_bytes_.push_back(static_cast<size_t>(output.size()) * size_of(output.dtype()));

  const MemoryPlan plan = plan_memory(graph, donated, restorable_, first_update);
  donor_ = plan.donor;
  if (log_topic("graphs")) log(LogLevel::kInfo, print_graph(graph));
  nodes_ = std::make_shared<const std::vector<std::shared_ptr<Node>>>(graph.nodes);
  if (record) {
    record->graph = graph;
    record->plan = plan;
    record->donated = donated;
    record->nodes = nodes_;
  }
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) { return is_collective(*node); })) {
    collective_ = std::make_unique<CollectiveProgram>(device_, lowered, options);
    return;
  }
  const bool own_plan = device_->has(TRANSOM_DEVICE_PLANS_MEMORY);
  arena_bytes_ = own_plan ? 0 : static_cast<size_t>(plan.arena_bytes);
  const GraphView view(graph, own_plan ? nullptr : &plan, options.frozen);
  transom_error error{};
  device_->expect_ok(device_->table().compile(device_->handle(), &view.graph(), &executable_, &error), error);
  if (record && device_->table().executable_describe) {
    const char* text = device_->table().executable_describe(executable_);
    record->description = text ? text : "";
  }
}

Program::~Program() {
  if (executable_) device_->table().executable_destroy(executable_);
}

std::vector<std::shared_ptr<Buffer>> Program::with_folded(const std::vector<std::shared_ptr<Buffer>>& inputs) const {
  std::vector<std::shared_ptr<Buffer>> all = inputs;
  for (const FoldedConstant& value : folded_) {
    std::vector<std::shared_ptr<Buffer>> from;
    std::vector<uint64_t> key = {value.key.first, value.key.second};
    for (const size_t i : value.inputs) {
      from.push_back(inputs[i]);
      key.push_back(inputs[i]->id());
    }
    all.push_back(from.front()->derived(key, [&] {
      ProgramOptions options;
      options.donated.resize(from.size());
      options.frozen.resize(from.size());
      return Program(device_, value.graph, options).run(from).front();
    }));
  }
  return all;
}

std::vector<std::shared_ptr<Buffer>> Program::run(const std::vector<std::shared_ptr<Buffer>>& inputs) const {
  for (const std::shared_ptr<Buffer>& input : inputs) input->expect_contents();
  if (collective_) return collective_->run(with_folded(inputs));
  const std::vector<std::shared_ptr<Buffer>> outputs = output_buffers(inputs);
  // Before the device is taken: it may compile, and others who wait for the same values hold their lock.
  const std::vector<std::shared_ptr<Buffer>> all = with_folded(inputs);
  const auto turn = device_->take_turn();
  launch(all, outputs, arena_bytes_ ? device_->arena(arena_bytes_).get() : nullptr);
  return results(inputs, outputs);
}

size_t Program::memory_bytes() const {
  // Measured on small models: nodes, the executable's steps and their kernels take about 12 KiB a node.
  constexpr size_t kBytesOfNode = 12 << 10;
  return kBytesOfNode * (1 + nodes_->size()) + (collective_ ? kBytesOfNode * nodes_->size() : 0);
}

bool Program::updates(size_t input) const {
  return std::find(donor_.begin(), donor_.end(), static_cast<int>(input)) != donor_.end();
}

std::vector<std::shared_ptr<Buffer>> Program::output_buffers(const std::vector<std::shared_ptr<Buffer>>& inputs) const {
  std::vector<std::shared_ptr<Buffer>> outputs;
  for (size_t o = 0; o < output_bytes_.size(); ++o)
    outputs.push_back(donor_[o] >= 0 ? inputs[static_cast<size_t>(donor_[o])] : device_->allocate(output_bytes_[o]));
  return outputs;
}

void Program::launch(const std::vector<std::shared_ptr<Buffer>>& inputs,
                     const std::vector<std::shared_ptr<Buffer>>& outputs, const Buffer* arena) const {
  std::vector<transom_binding> input_bindings, output_bindings;
  for (const auto& input : inputs) input_bindings.push_back({input->handle(), 0});
  for (const auto& output : outputs) output_bindings.push_back({output->handle(), 0});
  const transom_launch launch = {.struct_size = sizeof(transom_launch),
                                 .stream = device_->stream(),
                                 .inputs = input_bindings.data(),
                                 .inputs_count = input_bindings.size(),
                                 .outputs = output_bindings.data(),
                                 .outputs_count = output_bindings.size(),
                                 .arena = {arena ? arena->handle() : nullptr, 0}};
  const ProfiledRun profiled(nodes_, *device_);
  transom_error error{};
  expect_done(device_->table().run(executable_, &launch, &error), error, inputs);
}

void Program::expect_done(transom_status status, const transom_error& error,
                          const std::vector<std::shared_ptr<Buffer>>& inputs) const {
  if (status == TRANSOM_OK) return;
  // Kernels refuse data, and memory that they lack, before anything restorable is written. Of any other failure nobody
  // knows how far the program came.
  const bool before_updates =
      status == TRANSOM_INVALID_ARGUMENT || status == TRANSOM_OUT_OF_MEMORY || status == TRANSOM_UNSUPPORTED;
  for (const int donor : donor_) {
    if (donor < 0) continue;
    const auto i = static_cast<size_t>(donor);
    if (!(before_updates && restorable_[i])) inputs[i]->set_overwritten();
  }
  device_->expect_ok(status, error);
}

std::vector<std::shared_ptr<Buffer>> Program::results(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                                      const std::vector<std::shared_ptr<Buffer>>& outputs) const {
  std::vector<std::shared_ptr<Buffer>> results;
  for (const Source& source : sources_)
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
  const auto mix = [&](uint64_t value) {
    key.first = (key.first ^ value) * 0x9E3779B97F4A7C15;
    key.second = (key.second + value) * 0xC2B2AE3D27D4EB4F;
    key.first ^= key.first >> 31;
    key.second ^= key.second >> 29;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    mix(options.donated[i] + 2 * options.frozen[i] + 4 * (i < options.restorable.size() && options.restorable[i]));
  mix(reinterpret_cast<uintptr_t>(device.get()));
  mix(device->communicator() != nullptr);
  return cache().find(key, [&] {
    const auto begin = std::chrono::steady_clock::now();
    auto program = std::make_shared<const Program>(device, graph, options);
    if (log_topic("recompiles"))
      log(LogLevel::kInfo,
          fmt::format("compiled a program of {} nodes for {} in {:.1f} ms ({} so far)", graph.nodes.size(),
                      purpose(graph, options),
                      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
                      cache().use().misses));
    return program;
  });
}

CacheUse program_cache_use() { return cache().use(); }
void trim_program_cache() { cache().trim(); }

}  // namespace transom
