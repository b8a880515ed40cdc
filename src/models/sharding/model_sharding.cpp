// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/model_sharding.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "models/nn/weight_adapter.h"
#include "models/replace_value.h"
#include "models/sharding/tensor_parallel_plan.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

template <typename Visit>
void for_each_weight(const Model& model, Visit visit) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (parameter->value.defined()) visit(parameter);
}

// A row's length needs the whole row, and a bias is added once.
void expect_plain_adapters(const Model& model) {
  for_each_weight(model, [](const std::shared_ptr<Parameter>& parameter) {
    const WeightAdapter* adapter = parameter->adapter.get();
    if (adapter && !adapter->uncut().empty())
      fail(ErrorKind::kUsage, "tp_size: expected adapters without {}, found it at {}; use --fsdp", adapter->uncut(),
           parameter->name);
  });
}

}  // namespace

ModelSharding::ModelSharding(Model& model, const ShardingLayout& layout, int64_t rank, int64_t ranks)
    : model_(model), layout_(layout), tensors_(ProcessMesh(layout.sizes, rank, ranks)) {
  if (layout.size(MeshAxis::kPipeline) > 1) {
    stages_ = stages_of(model, layout.size(MeshAxis::kPipeline), layout.chunks);
  }
  if (layout.size(MeshAxis::kTensor) > 1) expect_plain_adapters(model);
  for_each_weight(model,
                  [&](const std::shared_ptr<Parameter>& parameter) { replace_value(*parameter, part_of(*parameter)); });
}

Tensor ModelSharding::part_of(const Parameter& parameter) {
  if (!is_home(parameter)) return tensors_.hold_absent(parameter.value.type(), home_of(parameter), stored_axes());
  return tensors_.hold_part_of(parameter.value, home_of(parameter), stored_axes());
}

int64_t ModelSharding::row_parts() const {
  return layout_.size(MeshAxis::kData) * layout_.size(MeshAxis::kShard) * layout_.size(MeshAxis::kExpert);
}

MeshAxes ModelSharding::stored_axes() const {
  return layout_.zero_stage >= 3 ? MeshAxes{MeshAxis::kShard} : MeshAxes();
}

Placement ModelSharding::base_of(const Parameter& parameter) const {
  return tensor_parallel_placement(tensors_.mesh(), model_.config(), parameter);
}

// Cut along fsdp in the first dimension that has something for every process.
Placement ModelSharding::state_home_of(const Parameter& parameter) const {
  const Placement base = base_of(parameter);
  if (layout_.zero_stage == 0 || layout_.size(MeshAxis::kShard) == 1) return base;
  const Shape& shape = parameter.value.shape();
  for (size_t d = 0; d < shape.size(); ++d)
    if (Placement cut = cut_further(tensors_.mesh(), base, shape, d, MeshAxis::kShard); !(cut == base)) return cut;
  return base;
}

Placement ModelSharding::home_of(const Parameter& parameter) const {
  return layout_.zero_stage >= 3 ? state_home_of(parameter) : base_of(parameter);
}

Placement ModelSharding::accumulated_home_of(const Parameter& parameter) const {
  if (layout_.zero_stage != 1) return state_home_of(parameter);
  Placement placement = base_of(parameter);
  for (const MeshAxis axis : {MeshAxis::kData, MeshAxis::kShard})
    if (layout_.size(axis) > 1) placement.partial.add(axis);
  return placement;
}

const Parameter* ModelSharding::find(const std::string& name) const {
  const Parameter* found = nullptr;
  for_each_weight(model_, [&](const std::shared_ptr<Parameter>& parameter) {
    if (parameter->name == name) found = parameter.get();
  });
  return found;
}

Placement ModelSharding::state_placement(const std::string& name, const Type& type,
                                         const std::vector<OptimizedParameter>& trained) const {
  for (const OptimizedParameter& each : trained)
    if (name.ends_with("." + each.name) && type.shape == each.value.shape())
      if (const Parameter* parameter = find(each.name);
          parameter && name.size() == name.find('.') + 1 + each.name.size())
        return state_home_of(*parameter);
  return replicated(type.shape.size());
}

void ModelSharding::take(Optimizer* optimizer, const std::vector<OptimizedParameter>& trained) {
  TensorSet used;
  for_each_weight(model_, [&](const std::shared_ptr<Parameter>& parameter) {
    if (!tensors_.holds(parameter->value)) replace_value(*parameter, part_of(*parameter));
    used.insert(parameter->value);
  });
  if (optimizer) {
    std::vector<std::pair<std::string, Tensor>> state = optimizer->state();
    if (stages_) {
      std::set<std::string> mine;
      for (const auto& [name, type] : optimizer->state_layout(at_home(trained))) mine.insert(name);
      std::erase_if(state, [&](const auto& item) { return !mine.contains(item.first); });
    }
    for (auto& [name, tensor] : state) {
      if (!tensors_.holds(tensor)) {
        const Placement placement = state_placement(name, tensor.type(), trained);
        tensor = layout_.offloads_state ? tensors_.hold_part_on_host(tensor, placement)
                                        : tensors_.hold_part_of(tensor, placement);
      }
      used.insert(tensor);
    }
    optimizer->restore(optimizer->steps(), std::move(state));
  }
  tensors_.keep_only(used);
}

void ModelSharding::initialise(Optimizer& optimizer, const std::vector<OptimizedParameter>& trained) {
  if (!optimizer.state().empty()) return;
  std::vector<std::pair<std::string, Tensor>> state;
  for (const auto& [name, type] : optimizer.state_layout(trained))
    state.emplace_back(name, tensors_.hold_zeros(type, state_placement(name, type, trained), layout_.offloads_state));
  optimizer.restore(optimizer.steps(), std::move(state));
}

void ModelSharding::cut_rows(const NamedTensors& inputs) {
  int64_t rows = 0;
  for (const auto& [name, tensor] : inputs.items())
    if (tensor.rank() > 0) rows = rows == 0 ? tensor.dim(0) : std::min(rows, tensor.dim(0));
  std::vector<MeshAxis> axes;
  for (const MeshAxis axis : {MeshAxis::kData, MeshAxis::kShard, MeshAxis::kExpert})
    if (layout_.size(axis) > 1) axes.push_back(axis);
  for (const auto& [name, tensor] : inputs.items()) {
    if (tensor.rank() == 0 || rows == 0 || tensor.dim(0) % rows != 0) continue;
    Placement placement = replicated(tensor.shape().size());
    const Cut cut = make_cut(tensors_.mesh(), axes, rows, tensor.dim(0) / rows);
    if (!axes.empty() && gives_all_a_part(tensors_.mesh(), cut)) placement.dimensions[0] = {cut};
    // Places of a sequence; a dimension of an image is one just as well.
    if (layout_.size(MeshAxis::kContext) > 1 && tensor.rank() == 2)
      placement = cut_further(tensors_.mesh(), placement, tensor.shape(), 1, MeshAxis::kContext);
    cut_.emplace_back(tensor, placement);
  }
}

std::vector<Tensor> ModelSharding::evaluate(ShardedRequest request, StepRunner& runner) {
  request.cut = std::move(cut_);
  cut_.clear();
  request.keeps_gathered = !layout_.reshard_after_forward;
  request.context = layout_.context;
  request.sequence_parallel = layout_.sequence_parallel;
  return tensors_.evaluate(request, runner);
}

void ModelSharding::compute(const std::vector<Tensor>& tensors) {
  ShardedRequest request;
  for (const Tensor& tensor : tensors) request.outputs.push_back({tensor, std::nullopt});
  answer(std::move(request));
}

WholeValues::WholeValues(ModelSharding* sharding, Model& model, Optimizer* optimizer, bool everywhere) {
  if (!sharding) return;
  ShardedTensors& tensors = sharding->tensors();
  const bool keeps = everywhere || tensors.mesh().rank() == 0;
  for_each_weight(model, [&](const std::shared_ptr<Parameter>& parameter) {
    Tensor whole = tensors.gathered(parameter->value);
    if (!keeps) return;
    parameters_.emplace_back(parameter, parameter->value);
    parameter->value = std::move(whole);
  });
  if (!optimizer) return;
  std::vector<std::pair<std::string, Tensor>> state;
  for (const auto& [name, tensor] : optimizer->state()) {
    Tensor whole = tensors.gathered(tensor);
    if (!keeps) continue;
    if (sharding->layout().offloads_state) whole = in_host_memory(whole);
    state.emplace_back(name, std::move(whole));
  }
  if (!keeps) return;
  optimizer_ = optimizer;
  state_ = optimizer->state();
  optimizer->restore(optimizer->steps(), std::move(state));
}

WholeValues::~WholeValues() {
  for (auto& [parameter, value] : parameters_) parameter->value = std::move(value);
  if (optimizer_) optimizer_->restore(optimizer_->steps(), std::move(state_));
}

}  // namespace transom
