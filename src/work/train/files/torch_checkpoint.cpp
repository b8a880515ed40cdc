// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/torch_checkpoint.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/checkpoint/torch_file.h"
#include "files/config/config.h"
#include "files/config/model_type.h"
#include "work/train/files/torch_order.h"

namespace transom {
namespace {

constexpr std::string_view kTorchOptimizer = "optimizer.pt", kTorchSchedule = "scheduler.pt";

const PickleDict& dict_of(const PickleValue& value, std::string_view where) {
  const auto* dict = std::get_if<PickleDict*>(&value.value);
  require(dict != nullptr, "{}: expected a dict", where);
  return **dict;
}

const PickleList& list_of(const PickleValue& value, std::string_view where) {
  const auto* list = std::get_if<PickleList*>(&value.value);
  require(list != nullptr, "{}: expected a list", where);
  return **list;
}

const PickleValue* find(const PickleDict& dict, std::string_view key) {
  for (const auto& [each, value] : dict)
    if (const auto* name = std::get_if<const std::string*>(&each.value); name && **name == key) return &value;
  return nullptr;
}

const PickleValue* find(const PickleDict& dict, int64_t key) {
  for (const auto& [each, value] : dict)
    if (const auto* number = std::get_if<int64_t>(&each.value); number && *number == key) return &value;
  return nullptr;
}

const PickleValue& at(const PickleDict& dict, const std::string& key, std::string_view where) {
  const PickleValue* value = find(dict, key);
  if (!value) fail("{}: expected '{}', found none", where, key);
  return *value;
}

// Plain values; tensors and functions become null.
Json as_json(const PickleValue& value, int depth = 0) {
  require(depth < 32, "scheduler.pt: is nested deeper than 32 values");
  if (const auto* truth = std::get_if<bool>(&value.value)) return *truth;
  if (const auto* whole = std::get_if<int64_t>(&value.value)) return *whole;
  if (const auto* number = std::get_if<double>(&value.value)) return *number;
  if (const auto* text = std::get_if<const std::string*>(&value.value)) return **text;
  if (const auto* list = std::get_if<PickleList*>(&value.value)) {
    Json result = Json::array();
    for (const PickleValue& each : **list) result.push_back(as_json(each, depth + 1));
    return result;
  }
  if (const auto* dict = std::get_if<PickleDict*>(&value.value)) {
    Json result = Json::object();
    for (const auto& [key, each] : **dict)
      if (const auto* name = std::get_if<const std::string*>(&key.value)) result[**name] = as_json(each, depth + 1);
    return result;
  }
  return {};
}

// The states of all parameters (an empty one where an optimizer keeps none), in the order of the groups: those that
// decay, then the others, as Trainer makes them.
std::vector<const PickleDict*> ordered_states(const PickleDict& root, const std::string& where) {
  static const PickleDict none;
  const PickleDict& states = dict_of(at(root, "state", where), where + ": state");
  std::vector<const PickleDict*> result;
  for (const PickleValue& group : list_of(at(root, "param_groups", where), where + ": param_groups"))
    for (const PickleValue& index : list_of(at(dict_of(group, where), "params", where), where + ": params")) {
      const auto* number = std::get_if<int64_t>(&index.value);
      const PickleValue* state = number ? find(states, *number) : nullptr;
      result.push_back(state ? &dict_of(*state, where) : &none);
    }
  return result;
}

// The parameters as Trainer groups them.
std::vector<const OptimizedParameter*> ordered_parameters(const std::vector<OptimizedParameter>& parameters,
                                                          const std::string& model_type, bool body_first) {
  std::vector<std::string> names;
  for (const OptimizedParameter& parameter : parameters) names.push_back(parameter.name);
  std::vector<const OptimizedParameter*> result;
  const std::vector<size_t> order = torch_order(names, model_type, body_first);
  for (const bool decays : {true, false})
    for (const size_t i : order)
      if (parameters[i].decays == decays) result.push_back(&parameters[i]);
  return result;
}

// The first parameter whose moment has another shape; null where all fit.
const OptimizedParameter* first_misfit(const std::vector<const OptimizedParameter*>& parameters,
                                       const std::vector<const PickleDict*>& states) {
  for (size_t i = 0; i < parameters.size(); ++i)
    for (const char* name : {"exp_avg", "momentum_buffer"}) {
      const PickleValue* moment = find(*states[i], name);
      const auto* tensor = moment ? std::get_if<const PickleTensor*>(&moment->value) : nullptr;
      if (tensor && Shape((*tensor)->shape) != parameters[i]->value.shape()) return parameters[i];
    }
  return nullptr;
}

void load_optimizer(const std::filesystem::path& path, const Model& model, TrainStep& step, int64_t global_step) {
  TorchFile file = TorchFile::open(path);
  const std::string where = path.string();
  const std::vector<const PickleDict*> states = ordered_states(dict_of(file.root(), where), where);
  const std::vector<OptimizedParameter> all = step.parameters();
  require(states.size() == all.size(), "{}: has the states of {} parameters, the model that is trained has {}", where,
          states.size(), all.size());
  const std::string type = model_type_of(model.config());
  auto parameters = ordered_parameters(all, type, false);
  const OptimizedParameter* misfit = first_misfit(parameters, states);
  if (misfit) {
    parameters = ordered_parameters(all, type, true);
    if (first_misfit(parameters, states))
      fail("{}: the state in the place of parameter '{}' has another shape; was it made by another model?", where,
           misfit->name);
  }
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (size_t i = 0; i < parameters.size(); ++i)
    for (const auto& [key, value] : *states[i]) {
      const auto* name = std::get_if<const std::string*>(&key.value);
      const auto* tensor = std::get_if<const PickleTensor*>(&value.value);
      if (!name || !tensor || **name == "step") continue;
      const std::string full = **name + "." + parameters[i]->name;
      const TensorView view = file.tensor(**tensor, where + ": " + full);
      tensors.emplace_back(full, step.loaded_state(view.bytes, {view.dtype, view.shape}));
    }
  step.optimizer().load(global_step, std::move(tensors), all);
}

}  // namespace

bool is_torch_checkpoint(const std::filesystem::path& directory) { return path_exists(directory / kTorchOptimizer); }

void load_torch_run(const std::filesystem::path& directory, const Model& model, TrainStep& step, Schedule& schedule,
                    int64_t global_step) {
  load_optimizer(directory / kTorchOptimizer, model, step, global_step);
  schedule.load(as_json(TorchFile::open(directory / kTorchSchedule).root()));
  log(LogLevel::kInfo,
      "resumed from a checkpoint of PyTorch; its random generators are left aside: dropout draws anew");
}

}  // namespace transom
