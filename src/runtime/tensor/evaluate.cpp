// SPDX-License-Identifier: Apache-2.0
// Running what the tensors need: one graph, one program.
#include "runtime/tensor/evaluate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/memory/shared_cache.h"
#include "base/threads/interrupt.h"
#include "graph/ir/claimed_graph.h"
#include "graph/ir/tensor_map.h"
#include "runtime/programs/captured_program.h"
#include "runtime/programs/program.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

using CountReferences = StepRunner::CountReferences;

const std::shared_ptr<Storage>& storage_of(const Tensor& tensor) {
  if (!tensor.node()->computed(tensor.output()))
    fail("a tensor depends on an input of a traced function, which has no value");
  return tensor.node()->storage(tensor.output());
}

void expect_on(const Device& device, const Tensor& tensor, const Device& found) {
  if (&found != &device)
    fail(ErrorKind::kDevice,
         "expected tensors on {} alone, found {} on {}; Tensor::to copies a tensor to another device", device.name(),
         to_string(tensor.type()), found.name());
}

// Of values in host memory a copy on `device`, made now; others are there.
std::shared_ptr<Buffer> buffer_on(const Tensor& tensor, Device& device) {
  const std::shared_ptr<Storage>& storage = storage_of(tensor);
  if (is_in_host_memory(tensor)) return device.upload(host_bytes(tensor));
  auto buffer = std::static_pointer_cast<Buffer>(storage);
  expect_on(device, tensor, buffer->device());
  return buffer;
}

// Which inputs of the graph nobody can need after the run: no handle outside the graph reaches them, now or through a
// node that stays uncomputed or remembers how it was computed. `inputs`: their buffers. `own`: references to a buffer
// that do not count.
std::vector<bool> find_donated(const Graph& graph, const std::vector<std::shared_ptr<Buffer>>& inputs,
                               const CountReferences& own) {
  std::unordered_map<const Node*, long> references;  // that the graph itself holds
  std::unordered_map<const Node*, bool> kept;        // nodes that keep their inputs alive after the run
  const auto refer = [&](const Tensor& tensor) { ++references[tensor.node().get()]; };
  for (const Tensor& tensor : graph.inputs) refer(tensor);
  for (const Tensor& tensor : graph.outputs) refer(tensor);
  std::unordered_map<const Node*, bool> is_output;
  for (const Tensor& tensor : graph.outputs) is_output[tensor.node().get()] = true;
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    ++references[node.get()];
    for (const Tensor& input : node->inputs) refer(input);
  }
  const auto held_outside = [&](const std::shared_ptr<Node>& node) {
    return node.use_count() > references[node.get()];
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool output = is_output.contains(node->get());
    const bool keeps = kept[node->get()] || (output ? (*node)->saves_for_backward : held_outside(*node));
    if (keeps)
      for (const Tensor& input : (*node)->inputs)
        // An output that forgets how it was computed lets go of its inputs, whoever keeps it.
        if (!is_output.contains(input.node().get()) || input.node()->saves_for_backward)
          kept[input.node().get()] = true;
  }
  std::vector<bool> donated;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = graph.inputs[i];
    const std::shared_ptr<Buffer>& buffer = inputs[i];
    // One reference here, one in the node. What was copied from host memory is of this run alone.
    donated.push_back(is_in_host_memory(input) || (!kept[input.node().get()] && !held_outside(input.node()) &&
                                                   buffer->is_writable() && buffer.use_count() == 2 + own(buffer)));
  }
  return donated;
}

using Run = std::function<std::vector<std::shared_ptr<Buffer>>(const std::shared_ptr<const Program>&,
                                                               const std::vector<std::shared_ptr<Buffer>>& inputs)>;

// The graph of what is not computed yet of the tensors.
Graph graph_of(std::span<const Tensor> tensors) {
  std::vector<Tensor> outputs;
  TensorSet seen;
  for (const Tensor& tensor : tensors) {
    tensor.type();
    if (tensor.node()->computed(tensor.output())) continue;
    if (is_input(*tensor.node())) fail("an input of a traced function has no value outside of it");
    // All outputs of a node, so that it can let go of its inputs.
    for (const Tensor& output : outputs_of(tensor.node()))
      if (!output.node()->computed(output.output()) && seen.insert(output).second) outputs.push_back(output);
  }
  return make_graph(std::move(outputs));
}

// `spared`: see StepRunner. `own`: these references, and others that do not keep memory from being donated.
void evaluate(std::span<const Tensor> tensors, const CountReferences& own, const CountReferences& spared,
              const Run& run) {
  ClaimedGraph claimed([&] { return graph_of(tensors); });
  const Graph& graph = claimed.graph();
  if (graph.outputs.empty()) return;
  check_interrupted();
  std::vector<std::shared_ptr<Buffer>> inputs;
  const std::shared_ptr<Device> device = device_of(graph.inputs);
  ProgramOptions options;
  for (const Tensor& input : graph.inputs) {
    inputs.push_back(buffer_on(input, *device));
    options.frozen.push_back(inputs.back()->frozen());
    options.restorable.push_back(spared(inputs.back()) > 0);
  }
  options.donated = find_donated(graph, inputs, own);
  const std::vector<std::shared_ptr<Buffer>> results = run(find_program(device, graph, options), inputs);
  claimed.finish(std::vector<std::shared_ptr<Storage>>(results.begin(), results.end()));
}

}  // namespace

void eval(std::span<const Tensor> tensors) {
  eval(tensors, [](const auto&) { return 0; });
}

void eval(std::span<const Tensor> tensors, const StepRunner::CountReferences& spared) {
  evaluate(tensors, spared, spared, [](const auto& program, const auto& inputs) { return program->run(inputs); });
}

struct StepRunner::Captures {
  struct Entry {
    std::shared_ptr<const Program> program;
    size_t last_use = 0;      // counted in replays
    std::vector<bool> fixed;  // inputs that were the same buffers at each call so far
    std::vector<std::shared_ptr<Buffer>> bound;
    std::unique_ptr<CapturedProgram> captured;
  };
  std::map<const Program*, Entry> entries;
  size_t replays = 0;

  long references_to(const std::shared_ptr<Buffer>& buffer) const {
    long count = 0;
    for (const auto& [program, entry] : entries)
      count += std::count(entry.bound.begin(), entry.bound.end(), buffer) + entry.captured->references_to(buffer);
    return count;
  }

  // As caches do (see caches.h): the least recently used goes first, and the newest stays.
  void evict() {
    while (entries.size() > 1) {
      size_t bytes = 0;
      auto oldest = entries.begin();
      for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
        bytes += entry->second.program->memory_bytes() + entry->second.captured->memory_bytes();
        if (entry->second.last_use < oldest->second.last_use) oldest = entry;
      }
      if (bytes <= cache_limit()) return;
      entries.erase(oldest);
    }
  }

  std::vector<std::shared_ptr<Buffer>> run(const std::shared_ptr<const Program>& program,
                                           const std::vector<std::shared_ptr<Buffer>>& inputs,
                                           const CountReferences& spared) {
    Entry& entry = entries[program.get()];
    bool same = entry.captured != nullptr;
    if (!same) {
      entry.program = program;
      for (size_t i = 0; i < inputs.size(); ++i) entry.fixed.push_back(program->updates(i) || inputs[i]->frozen());
    }
    for (size_t i = 0; entry.captured && i < inputs.size(); ++i)
      if (entry.fixed[i] && entry.bound[i] != inputs[i]) same = entry.fixed[i] = false;
    entry.last_use = ++replays;
    if (!same) {
      entry.bound.assign(inputs.size(), nullptr);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (entry.fixed[i]) entry.bound[i] = inputs[i];
      entry.captured.reset();
      try {
        entry.captured = std::make_unique<CapturedProgram>(program, inputs, entry.fixed);
      } catch (...) {
        entries.erase(program.get());
        throw;
      }
      evict();
    }
    return entry.captured->replay(inputs, spared);
  }
};

StepRunner::StepRunner() : captures_(std::make_unique<Captures>()) {}
StepRunner::~StepRunner() = default;
size_t StepRunner::replays() const { return captures_->replays; }

void StepRunner::operator()(std::span<const Tensor> tensors, const CountReferences& spared) {
  const auto spare = [&](const std::shared_ptr<Buffer>& buffer) { return spared ? spared(buffer) : 0; };
  if (mode() != Mode::kGraph) {
    captures_->entries.clear();
    evaluate(tensors, spare, spare, [](const auto& program, const auto& inputs) { return program->run(inputs); });
    return;
  }
  evaluate(
      tensors, [&](const auto& buffer) { return captures_->references_to(buffer) + spare(buffer); }, spare,
      [&](const auto& program, const auto& inputs) { return captures_->run(program, inputs, spare); });
}

std::shared_ptr<Device> device_of(std::span<const Tensor> tensors) {
  std::shared_ptr<Device> found;
  for (const Tensor& tensor : tensors) {
    const std::shared_ptr<Storage>& storage = storage_of(tensor);
    if (is_in_host_memory(tensor)) continue;
    Device& device = static_cast<const Buffer&>(*storage).device();
    if (found) expect_on(*found, tensor, device);
    else found = device.shared_from_this();
  }
  return found ? found : default_device();
}

std::shared_ptr<Buffer> buffer_of(const Tensor& tensor) {
  eval({&tensor, 1});
  return buffer_on(tensor, *device_of({&tensor, 1}));
}

std::shared_ptr<Buffer> buffer_of(const Tensor& tensor, Device& device) {
  eval({&tensor, 1});
  return buffer_on(tensor, device);
}

Tensor Tensor::to(const std::string& name) const {
  if (requires_grad() && gradients_enabled())
    fail("Tensor::to: no gradient flows between devices, and {} requires one; detach() it first", to_string(type()));
  const std::shared_ptr<Device> device = Device::open(name);
  eval({this, 1});
  if (!is_in_host_memory(*this) && device_of({this, 1}) == device) return *this;
  return make_input(type(), device->upload(to_bytes()));
}

std::string Tensor::device() const {
  type();
  if (node()->computed(output())) return device_of({this, 1})->name();
  const Tensor all[] = {*this};
  const ClaimedGraph claimed([&] { return graph_of(all); });
  return device_of(claimed.graph().inputs)->name();
}

Tensor copy_on_device(const Tensor& tensor) {
  const std::shared_ptr<Buffer> from = buffer_of(tensor);
  from->expect_contents();
  Device& device = from->device();
  std::shared_ptr<Buffer> to = device.allocate(from->bytes());
  transom_error error{};
  const auto turn = device.take_turn();
  if (to->bytes() > 0)
    device.expect_ok(
        device.table().copy_on_device(device.stream(), {from->handle(), 0}, {to->handle(), 0}, to->bytes(), &error),
        error);
  return make_input(tensor.type(), std::move(to));
}

}  // namespace transom
