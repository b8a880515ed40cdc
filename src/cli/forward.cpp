// SPDX-License-Identifier: Apache-2.0
// transom forward: named tensors through a model, and the gradient of the loss for every parameter.
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "io/safetensors.h"
#include "train/model_inputs.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

struct Options {
  std::string model, inputs, outputs, gradients, kwargs = "{}", dtype = "float32";
  DeviceOptions device;
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

int forward(const Options& options) {
  options.device.apply();
  const DType dtype = parse_dtype(options.dtype);
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16)
    fail(ErrorKind::kUsage, "--dtype: expected float32 or bfloat16, found {}", quoted(options.dtype));
  const std::unique_ptr<Model> model = Model::from_pretrained(options.model);
  const NamedTensors inputs = load_inputs(options.inputs);
  const ForwardContext context = context_of(options.kwargs);
  std::optional<Autocast> autocast;
  if (dtype == DType::kBFloat16) autocast.emplace(dtype);
  const NamedTensors outputs = model->forward(inputs, context);
  NamedTensors results;
  if (!options.gradients.empty()) {
    const Tensor loss = outputs.find("loss");
    if (!loss.defined()) fail("--gradients: the model gave no loss; the inputs need labels");
    std::vector<Tensor> parameters;
    for (const auto& parameter : model->parameters()) parameters.push_back(parameter->value);
    const std::vector<Tensor> gradients = transom::gradients(loss, parameters);
    for (size_t i = 0; i < gradients.size(); ++i) results.set(model->parameters()[i]->name, gradients[i]);
  }
  std::vector<Tensor> all;
  for (const NamedTensors* tensors : {&outputs, static_cast<const NamedTensors*>(&results)})
    for (const auto& [name, tensor] : tensors->items()) all.push_back(tensor);
  eval(all);
  write_tensors(options.outputs, outputs);
  if (!options.gradients.empty()) write_tensors(options.gradients, results);
  return 0;
}

}  // namespace

Command forward_command() {
  static Options options;
  Command command{
      .name = "forward",
      .help = "Feed tensors through a model and write its outputs, and gradients if asked for",
      .examples =
          "  transom forward --model DIR --inputs in.safetensors --outputs out.safetensors\n"
          "  transom forward --model DIR --inputs in.safetensors --outputs out.safetensors --gradients g.safetensors"};
  command.options = {
      {"--model", &options.model, "directory of a checkpoint", true},
      {"--inputs", &options.inputs, "safetensors file with tensors by the names of Transformers' arguments", true},
      {"--outputs", &options.outputs, "where the outputs go, by Transformers' names", true},
      {"--gradients", &options.gradients, "where the gradient of the loss for every parameter goes"},
      {"--kwargs", &options.kwargs, "further arguments as JSON, such as {\"output_hidden_states\": true}"},
      {"--dtype", &options.dtype, "float32 or bfloat16 (autocast)"}};
  options.device.add_to(command);
  command.run = [] { return forward(options); };
  return command;
}

}  // namespace transom
