// SPDX-License-Identifier: Apache-2.0
// transom forward: named tensors through a model, and the gradient of the loss for every parameter.
#include <cstdio>

#include "apps/cli/command.h"
#include "apps/cli/commands/forward_onnx.h"
#include "apps/cli/options/sharding_options.h"
#include "base/error.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "models/loading/weights/missing_weights.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/shared/mixtures/fused_experts.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/compile.h"
#include "transom/distributed.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

struct ForwardArguments {
  std::string model, inputs, outputs, gradients, kwargs = "{}";
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions numbers;
  ShardingOptions sharding;
};

void write_tensors(const std::string& path, const NamedTensors& tensors) {
  NamedViews views;
  for (const auto& [name, tensor] : tensors.items()) {
    const Tensor stored = tensor.dtype() == DType::kBFloat16 ? cast(tensor, DType::kFloat32) : tensor;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(stored.to_bytes());
    views.emplace_back(name, TensorView{stored.dtype(), stored.shape(), *bytes, bytes});
  }
  write_safetensors(path, views, {});
}

// The keyword arguments that are no tensors.
ForwardContext context_of(const std::string& kwargs) {
  ForwardContext context;
  const Json json = parse_json(kwargs, "--kwargs");
  if (!json.is_object()) fail(ErrorKind::kUsage, "--kwargs: expected a JSON object, found {}", quoted(kwargs));
  for (const auto& [name, value] : json.items()) {
    if (name == "output_hidden_states" && value.is_boolean()) context.output_hidden_states = value.get<bool>();
    else if (name == "return_loss" && value.is_boolean()) context.return_loss = value.get<bool>();
    else if (name == "interpolate_pos_encoding" && value.is_boolean())
      context.interpolate_pos_encoding = value.get<bool>();
    else if (name == "return_dict" || name == "use_cache" || name == "output_attentions") {
      if (name == "output_attentions" && value == true) fail("--kwargs: output_attentions is not offered");
    } else
      fail("--kwargs: unknown argument {}; known are output_hidden_states, return_loss, interpolate_pos_encoding",
           quoted(name));
  }
  return context;
}

std::vector<Tensor> tensors_of(std::initializer_list<const NamedTensors*> groups) {
  std::vector<Tensor> all;
  for (const NamedTensors* group : groups)
    for (const auto& [name, tensor] : group->items()) all.push_back(tensor);
  return all;
}

// Traces `compute`, which fills in `outputs` and `gradients`, and leaves in them what the program gives. In graph mode
// the program is captured and then replayed.
void call_compiled(const NamedTensors& inputs, const std::function<void(const NamedTensors&)>& compute,
                   NamedTensors& outputs, NamedTensors& gradients) {
  const auto function = [&](const std::vector<Tensor>& arguments) {
    NamedTensors named;
    for (size_t i = 0; i < arguments.size(); ++i) named.set(inputs.items()[i].first, arguments[i]);
    compute(named);
    return tensors_of({&outputs, &gradients});
  };
  const CompiledFunction compiled =
      compile(function, {.name = "forward", .capture = mode() == Mode::kGraph, .donated = {}});
  const std::vector<Tensor> results = compiled(tensors_of({&inputs}));
  size_t next = 0;
  for (NamedTensors* group : {&outputs, &gradients}) {
    NamedTensors computed;
    for (const auto& [name, tensor] : group->items()) computed.set(name, results[next++]);
    *group = computed;
  }
}

int forward(const ForwardArguments& options) {
  options.device.apply();
  options.sharding.join();
  LoadOptions load;
  options.numbers.apply_to(load);
  if (load.activations == Activations::kFastest) load.activations = Activations::kInt8;  // as the checkpoint asks
  const bool wants_gradients = !options.gradients.empty();
  if (wants_gradients && load.quantization == Quantization::kNone) load.quantization = Quantization::kDecompressed;
  if (wants_gradients && load.quantization != Quantization::kDecompressed)
    fail(ErrorKind::kUsage, "--gradients: there are none through --quantization {}", load.quantization.name());
  const fs::path onnx = onnx::find_onnx_file(options.model);
  if (!onnx.empty()) {
    if (wants_gradients || load.quantization != Quantization::kNone || load.activations != Activations::kFloat32 ||
        load.dtype != ModelDType::kFloat32 || options.kwargs != "{}")
      fail(ErrorKind::kUsage,
           "{}: an ONNX file is computed as it is: --gradients, --quantization, --activations, --dtype and --kwargs "
           "do not apply",
           onnx.string());
    if (options.sharding.any()) fail(ErrorKind::kUsage, "--tp_size, --pp_size, --ep_size: not offered for ONNX files");
    forward_onnx(onnx, options.inputs, options.outputs);
    return 0;
  }
  const std::unique_ptr<Model> model = load_trained(resolve_model(options.model, options.source.hub()).string(), load);
  SpreadModel spread(options.sharding, *model);
  const NamedTensors inputs = load_inputs(options.inputs);
  const ForwardContext context = context_of(options.kwargs);
  NamedTensors outputs, gradients;
  // Fills in both; as a function of the inputs, so that the compiled modes can trace it.
  const auto compute = [&](const NamedTensors& given) {
    outputs = model->forward(given, context);
    if (!wants_gradients) return;
    const Tensor loss = outputs.find("loss");
    if (!loss.defined()) fail("--gradients: the model gave no loss; the inputs need labels");
    std::vector<Tensor> parameters;
    for (const auto& parameter : model->parameters()) parameters.push_back(parameter->value);
    const std::vector<Tensor> values = transom::gradients(loss, parameters);
    NamedTensors::Items named;
    for (size_t i = 0; i < values.size(); ++i) named.emplace_back(model->parameters()[i]->name, values[i]);
    for (auto& [name, value] : with_joined_experts(std::move(named))) gradients.set(name, value);
  };
  if (options.sharding.any()) {
    const ModeScope traced(Mode::kLazy);
    compute(inputs);
  } else if (mode() == Mode::kCompile || mode() == Mode::kGraph) {
    call_compiled(inputs, compute, outputs, gradients);
  } else {
    compute(inputs);
  }
  spread.compute(tensors_of({&outputs, &gradients}));
  const bool writes = process_rank() == 0;
  leave_process_group();
  if (!writes) return 0;
  write_tensors(options.outputs, outputs);
  if (wants_gradients) write_tensors(options.gradients, gradients);
  return 0;
}

}  // namespace

Command forward_command() {
  static ForwardArguments options;
  options.numbers.activations = "float32";
  Command command{.name = "forward",
                  .help = "Feed tensors through a model and write its outputs, and gradients if asked for",
                  .examples =
                      "  transom forward --model MODEL --inputs in.safetensors --outputs out.safetensors\n"
                      "  transom forward --model MODEL --inputs in.safetensors --outputs out.safetensors --gradients "
                      "g.safetensors"};
  command.options = {
      {kModelFlag, &options.model, kModelHelp, true},
      {"--inputs", &options.inputs, "safetensors file with tensors by the names of Transformers' arguments", true},
      {"--outputs", &options.outputs, "where the outputs go, by Transformers' names", true},
      {"--gradients", &options.gradients, "where the gradient of the loss for every parameter goes"},
      {"--kwargs", &options.kwargs, "further arguments as JSON, such as {\"output_hidden_states\": true}"}};
  options.numbers.add_to(command);
  options.source.add_to(command);
  options.device.add_to(command);
  options.sharding.add_to(command);
  command.run = [] { return forward(options); };
  return command;
}

}  // namespace transom
