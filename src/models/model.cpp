// SPDX-License-Identifier: Apache-2.0
#include "transom/model.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/config.h"
#include "files/hub/adapters.h"
#include "graph/ops/computing.h"
#include "models/compiled_forward.h"
#include "models/generative.h"
#include "models/loading/adapters/adaptation.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/nn/weight.h"
#include "models/precision.h"
#include "models/save_configuration.h"
#include "models/shared/mixtures/fused_experts.h"
#include "models/unfinite_numbers.h"
#include "runtime/tensor/evaluator.h"

namespace transom {

Tensor NamedTensors::find(std::string_view name) const {
  for (const auto& [key, tensor] : items_)
    if (key == name) return tensor;
  return {};
}

const Tensor& NamedTensors::at(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : items_) {
    if (key == name) return tensor;
    names.push_back(key);
  }
  fail("there is no tensor {}{} There are: {}", quoted(name), did_you_mean(name, names), fmt::join(names, ", "));
}

void NamedTensors::set(std::string name, Tensor tensor) {
  for (auto& [key, value] : items_)
    if (key == name) {
      value = std::move(tensor);
      return;
    }
  items_.emplace_back(std::move(name), std::move(tensor));
}

Model::~Model() = default;

void Model::prepare(ForwardContext& context) const { context.computing = joined(computing_, context.computing); }

void Model::set_computing(const Computing& computing) {
  computing_ = computing;
  if (dtype_ != DType::kFloat32) computing_.dtype = dtype_;
}

NamedTensors Model::run_adapted(const NamedTensors& inputs, const ForwardContext& context) const {
  return adaptation_ ? adaptation_->run(*this, inputs, context) : run_texts(inputs, context);
}

NamedTensors Model::run_texts(const NamedTensors& inputs, ForwardContext context) const {
  const Tensor numbers = inputs.find("seq_idx");
  if (!numbers.defined()) {
    if (inputs.find("token_places").defined()) fail("token_places: expected seq_idx beside it, found none");
    return run(inputs, context);
  }
  if (context.cache) fail("seq_idx: expected one text a row with a cache of keys and values");
  const TextsInRows texts = texts_in_rows(numbers);
  context.texts = &texts;
  return run(inputs, context);
}

NamedTensors Model::forward(const NamedTensors& inputs, ForwardContext context) const {
  std::vector<std::string> known = input_names();
  if (takes_texts_in_rows()) known.insert(known.end(), {"seq_idx", "token_places"});
  for (const auto& [name, tensor] : inputs.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("{} takes no input {}{} It takes: {}", architecture_, quoted(name), did_you_mean(name, known),
           fmt::join(known, ", "));
  prepare(context);
  static std::mutex making;  // of all models: it takes no time
  if (context.training) {
    // The weights are about to change: the passes of evaluations would keep the old ones in memory.
    const std::shared_ptr<CompiledForward> dropped = [&] {
      const std::lock_guard lock(making);
      return std::exchange(compiled_, nullptr);
    }();
  }
  if (Evaluator* evaluator = EvaluatorScope::current()) {
    // Who takes no gradients reads the outputs, which this process alone could not compute.
    const NamedTensors outputs = with_unfinite_rows(*this, inputs, run_adapted(inputs, context));
    std::vector<Tensor> all;
    for (const auto& [name, tensor] : outputs.items()) all.push_back(tensor);
    if (!gradients_enabled() && !context.training && !context.cache) evaluator->evaluate(all, {});
    return outputs;
  }
  if (!is_one_program() || !CompiledForward::applies(inputs, context))
    return with_unfinite_rows(*this, inputs, run_adapted(inputs, context));
  const std::shared_ptr<CompiledForward> compiled = [&] {
    const std::lock_guard lock(making);
    if (!compiled_) compiled_ = std::make_shared<CompiledForward>();
    return compiled_;
  }();
  return (*compiled)(*this, inputs, context);
}

std::vector<std::string> Model::labels() const {
  std::vector<std::string> names;
  for (const auto& [id, name] : config_->get_map("id2label")) {
    while (static_cast<int64_t>(names.size()) < id && names.size() < 1'000'000)
      names.push_back("LABEL_" + std::to_string(names.size()));
    names.push_back(name);
  }
  if (names.empty()) names = config_->get_strings("label_names");  // timm's name for them
  return names;
}

void save_configuration(const Model& model, const std::string& directory) {
  // Transformers loads in the type that the configuration names: that of the parameters, whatever the checkpoint held.
  Config config = model.config();
  const std::string dtype = name_of_precision(model.dtype());
  for (const char* name : {"dtype", "torch_dtype"})
    if (config.has(name)) set_field(config, name, Json(dtype));
  if (model.dtype() != DType::kFloat32 && !config.has("dtype") && !config.has("torch_dtype"))
    set_field(config, "torch_dtype", Json(dtype));
  write_file(fs::path(directory) / "config.json", config.dump());
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (writer && writer->can_generate())
    write_file(fs::path(directory) / "generation_config.json", writer->generation_config().dump());
}

NamedViews stored_weights(const Model& model) {
  NamedTensors::Items values;
  for (const auto* tensors : {&model.parameters(), &model.frozen(), &model.buffers()})
    for (const std::shared_ptr<Parameter>& tensor : *tensors)
      values.emplace_back(tensor->name, unpacked(*tensor, model.dtype()));
  NamedViews views;
  for (auto& [name, value] : with_joined_experts(std::move(values))) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    views.emplace_back(name, TensorView{value.dtype(), value.shape(), *bytes, bytes});
    value = {};  // what was computed for it goes
  }
  return views;
}

void Model::save_pretrained(const std::string& directory, uint64_t max_shard_bytes) const {
  make_directories(directory);
  if (adaptation_) {
    adaptation_->save(directory);
    const std::vector<std::string> names = labels();
    if (!names.empty()) write_file(fs::path(directory) / kAdapterClasses, dump_json(Json(names), 2) + "\n");
    return;
  }
  save_checkpoint(directory, stored_weights(*this), max_shard_bytes);
  save_configuration(*this, directory);
}

}  // namespace transom
