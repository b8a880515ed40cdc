// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/device_program.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "runtime/programs/graph_view.h"

namespace transom {
namespace {

// Inputs that are read by products with codes alone, as codes, scales or minima of them; or by looking up parts of
// them, where the device `gathers` them.
std::vector<bool> inputs_of_codes(const Graph& graph, const std::vector<bool>& frozen, bool gathers) {
  std::map<std::pair<const Node*, int>, size_t> place;
  std::vector<bool> result(graph.inputs.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    place[{graph.inputs[i].node().get(), graph.inputs[i].output()}] = i;
    result[i] = i < frozen.size() && frozen[i];
  }
  const auto read_otherwise = [&](const Tensor& value) {
    if (const auto found = place.find({value.node().get(), value.output()}); found != place.end())
      result[found->second] = false;
  };
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const bool grouped = node->operation->name == "grouped_quantized_matmul";
    const bool codes = (grouped || node->operation->name == "quantized_matmul") && !node->region;
    const bool parts = gathers && node->operation->name == "gather" && node->attributes.get_int("axis") == 0;
    const size_t minima = codes ? static_cast<size_t>(node->attributes.get_int("minima")) : 0;
    // Inputs of a matrix; a product by groups has several.
    const size_t each =
        grouped && codes ? 2 + minima + static_cast<size_t>(node->attributes.get_int("values")) : node->inputs.size();
    const auto reads_codes = [&](size_t i) {
      return i > 0 && (i - 1) % each < 2 + minima && !(grouped && i + 1 == node->inputs.size());
    };
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if (!(codes && reads_codes(i)) && !(parts && i == 0)) read_otherwise(node->inputs[i]);
  }
  for (const Tensor& output : graph.outputs) read_otherwise(output);
  return result;
}

}  // namespace

DeviceProgram::Compiled::~Compiled() {
  if (executable) device->table().executable_destroy(executable);
}

DeviceProgram::DeviceProgram(const std::shared_ptr<Device>& device, const Graph& graph, const MemoryPlan& plan,
                             const std::vector<bool>& frozen, std::vector<bool> restorable, std::string* description)
    : nodes_(std::make_shared<const std::vector<std::shared_ptr<Node>>>(graph.nodes)) {
  const auto compiled = std::make_shared<Compiled>();
  compiled->device = device;
  compiled->donor = plan.donor;
  compiled->restorable = std::move(restorable);
  compiled->restorable.resize(graph.inputs.size());
  compiled->reads_deferred = inputs_of_codes(graph, frozen, device->gathers_deferred());
  for (const Tensor& output : graph.outputs)
    compiled->output_bytes.push_back(static_cast<size_t>(output.size()) * size_of(output.dtype()));
  const bool own_plan = device->has(TRANSOM_DEVICE_PLANS_MEMORY);
  compiled->arena_bytes = own_plan ? 0 : static_cast<size_t>(plan.arena_bytes);
  const GraphView view(graph, own_plan ? nullptr : &plan, frozen);
  transom_error error{};
  const transom_status status = device->table().compile(device->handle(), &view.graph(), &compiled->executable, &error);
  compiled_ = compiled;
  try {
    device->expect_ok(status, error);
  } catch (const Error& refusal) {
    if (status != TRANSOM_UNSUPPORTED) throw;
    throw NotSupported(refusal.kind(), refusal.what());
  }
  if (description && device->table().executable_describe) {
    const char* text = device->table().executable_describe(compiled_->executable);
    *description += text ? text : "";
  }
}

DeviceProgram::DeviceProgram(const DeviceProgram& equal, const Graph& graph)
    : compiled_(equal.compiled_), nodes_(std::make_shared<const std::vector<std::shared_ptr<Node>>>(graph.nodes)) {}

size_t DeviceProgram::temporary_bytes() const {
  const transom_plugin& table = device().table();
  if (!table.executable_memory) return compiled_->arena_bytes;
  uint64_t bytes = 0;
  transom_error error{};
  device().expect_ok(table.executable_memory(compiled_->executable, &bytes, &error), error);
  return static_cast<size_t>(bytes) + (device().has(TRANSOM_DEVICE_PLANS_MEMORY) ? 0 : compiled_->arena_bytes);
}

std::vector<ProgramPiece> DeviceProgram::pieces() const {
  std::vector<size_t> places(nodes_->size());
  std::iota(places.begin(), places.end(), size_t{0});
  return {{.nodes = nodes_, .places = std::move(places)}};
}

Buffers DeviceProgram::run(const Buffers& inputs) const {
  Buffers outputs = output_buffers(inputs);
  const auto turn = device().take_turn();
  launch(inputs, outputs, compiled_->arena_bytes ? device().arena(compiled_->arena_bytes).get() : nullptr);
  return outputs;
}

bool DeviceProgram::updates(size_t input) const {
  return std::find(compiled_->donor.begin(), compiled_->donor.end(), static_cast<int>(input)) != compiled_->donor.end();
}

Buffers DeviceProgram::output_buffers(const Buffers& inputs) const {
  Buffers outputs;
  for (size_t o = 0; o < compiled_->output_bytes.size(); ++o)
    outputs.push_back(compiled_->donor[o] >= 0 ? inputs[static_cast<size_t>(compiled_->donor[o])]
                                               : device().allocate(compiled_->output_bytes[o]));
  return outputs;
}

void DeviceProgram::launch(const Buffers& inputs, const Buffers& outputs, const Buffer* arena) const {
  std::vector<transom_binding> input_bindings, output_bindings;
  for (size_t i = 0; i < inputs.size(); ++i)
    input_bindings.push_back({compiled_->reads_deferred[i] ? inputs[i]->unfinished_handle() : inputs[i]->handle(), 0});
  for (const auto& output : outputs) output_bindings.push_back({output->handle(), 0});
  const transom_launch launch = {.struct_size = sizeof(transom_launch),
                                 .stream = device().stream(),
                                 .inputs = input_bindings.data(),
                                 .inputs_count = input_bindings.size(),
                                 .outputs = output_bindings.data(),
                                 .outputs_count = output_bindings.size(),
                                 .arena = {arena ? arena->handle() : nullptr, 0}};
  const ProfiledRun profiled(nodes_, device());
  transom_error error{};
  expect_done(device().table().run(compiled_->executable, &launch, &error), error, inputs);
}

void DeviceProgram::expect_done(transom_status status, const transom_error& error, const Buffers& inputs) const {
  if (status == TRANSOM_OK) return;
  // Kernels refuse data, and memory that they lack, before anything restorable is written. Of any other failure nobody
  // knows how far the program came.
  const bool before_updates =
      status == TRANSOM_INVALID_ARGUMENT || status == TRANSOM_OUT_OF_MEMORY || status == TRANSOM_UNSUPPORTED;
  for (const int donor : compiled_->donor) {
    if (donor < 0) continue;
    const auto i = static_cast<size_t>(donor);
    if (!(before_updates && compiled_->restorable[i])) inputs[i]->set_overwritten();
  }
  device().expect_ok(status, error);
}

}  // namespace transom
