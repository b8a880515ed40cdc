// SPDX-License-Identifier: Apache-2.0
// ModelSharding where the layers are spread over the stages of a pipeline.
#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "models/records.h"
#include "models/sharding/model_sharding.h"
#include "models/sharding/pipeline/run.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Multiplications of a token with the weight, as far as they can be told from the weight alone.
int64_t cost_of(const Parameter& parameter) {
  const Shape& shape = parameter.value.shape();
  const bool table = shape.size() == 2 && parameter.use == Parameter::Use::kOther;
  return shape.size() < 2 || table ? 1 : elements(shape);
}

}  // namespace

std::unique_ptr<PipelineStages> stages_of(const Model& model, int64_t processes, int64_t chunks) {
  if (model.adaptation()) fail(ErrorKind::kUsage, "pp_size: adapters are not trained in a pipeline; use --fsdp");
  // Other buffers (the bias of BART's head) stay as they are.
  for (const std::shared_ptr<Parameter>& buffer : model.buffers())
    if (buffer->name.find("running_") != std::string::npos || buffer->name.ends_with("num_batches_tracked"))
      fail(ErrorKind::kUsage, "pp_size: {} has running statistics ({}), which a pipeline does not keep; use --fsdp",
           model.architecture(), buffer->name);
  std::vector<StagedWeight> weights;
  int64_t table = 0;
  const int64_t vocabulary = model.config().get_int("vocab_size", -1);
  bool head = false;
  for (const std::shared_ptr<Parameter>& parameter : model.parameters()) {
    if (!parameter->value.defined()) fail(ErrorKind::kUsage, "pp_size: {} is in a block format", parameter->name);
    weights.push_back({parameter->name, cost_of(*parameter)});
    const Shape& shape = parameter->value.shape();
    if (shape.size() != 2 || shape[0] != vocabulary) continue;
    if (parameter->use == Parameter::Use::kOther) table = std::max(table, elements(shape));
    else head = true;
  }
  // A head that shares its weights with the table of tokens works in the last stage.
  const Architecture* known = find_architecture(model);
  if (!head && known && !known->head.vocabulary->empty()) weights.push_back({weights.back().name, table});
  return std::make_unique<PipelineStages>(weights, processes * chunks, processes);
}

int64_t ModelSharding::stage_of(const Parameter& parameter) const {
  return stages_ ? stages_->stage_of(parameter.name).value_or(0) : tensors_.mesh().coordinate(MeshAxis::kPipeline);
}

bool ModelSharding::is_home(const Parameter& parameter) const {
  const int64_t stage = stage_of(parameter);
  return (stages_ ? stages_->process_of(stage) : stage) == tensors_.mesh().coordinate(MeshAxis::kPipeline);
}

bool ModelSharding::is_home(const OptimizedParameter& parameter) const {
  const Parameter* found = stages_ ? find(parameter.name) : nullptr;
  return !found || is_home(*found);
}

std::vector<OptimizedParameter> ModelSharding::at_home(std::vector<OptimizedParameter> trained) const {
  std::erase_if(trained, [&](const OptimizedParameter& parameter) { return !is_home(parameter); });
  return trained;
}

std::vector<PipelineWeight> ModelSharding::pipeline_weights() {
  std::vector<PipelineWeight> weights;
  for (const auto* group : {&model_.parameters(), &model_.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      weights.push_back({tensors_.value(parameter->value).local, stage_of(*parameter)});
  return weights;
}

ModelSharding::Pipelined ModelSharding::trace(ShardedRequest request) {
  request.cut = std::move(cut_);
  cut_.clear();
  request.keeps_gathered = !layout_.reshard_after_forward;
  request.context = layout_.context;
  request.sequence_parallel = layout_.sequence_parallel;
  Pipelined traced;
  for (const ShardedValue& value : tensors_.trace(request, &traced.batch.backward_from)) {
    traced.batch.outputs.push_back(value.local);
    traced.placements.push_back(value.placement);
  }
  traced.batch.homes.resize(traced.batch.outputs.size());
  return traced;
}

PipelineResult ModelSharding::run(const std::vector<PipelinedBatch>& batches, bool backward) {
  if (!pipeline_)
    pipeline_ = std::make_unique<PipelineRunner>(tensors_.mesh(), layout_.schedule, /*keeps_weights=*/fixed_weights_);
  return pipeline_->run(batches, pipeline_weights(), *stages_, backward);
}

std::vector<Tensor> ModelSharding::answer(ShardedRequest request) {
  if (!stages_) return evaluate(std::move(request), runner_);
  const ModeScope together(Mode::kLazy);
  std::vector<Tensor> made;
  std::vector<ShardedRequest::Output> outputs;
  std::vector<size_t> places;
  for (const ShardedRequest::Output& output : request.outputs) {
    made.push_back(output.tensor);
    if (output.as_computed && tensors_.holds(output.tensor)) {  // as a pass before left it
      std::erase_if(request.replaced, [&](const Tensor& tensor) { return tensor.same_as(output.tensor); });
      continue;
    }
    places.push_back(made.size() - 1);
    outputs.push_back(output);
  }
  request.outputs = outputs;
  const std::vector<Tensor> replaced = request.replaced;
  Pipelined traced = trace(std::move(request));
  for (const auto& [tensor, stage] : stages_of_state_)
    if (tensors_.holds(tensor)) traced.batch.kept.emplace(tensors_.value(tensor).local, stage);
  const PipelineResult result = run({traced.batch}, /*backward=*/false);
  for (const Tensor& tensor : replaced) stages_of_state_.erase(tensor);
  tensors_.let_go(replaced);
  const int64_t here = tensors_.mesh().coordinate(MeshAxis::kPipeline);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ShardedRequest::Output& output = outputs[i];
    const std::optional<int64_t> from = result.processes[i];
    const Type type = output.tensor.type();
    if (!output.placement && !output.as_computed) {
      give_value(output.tensor, from ? pipeline_->shared(result.outputs[i], type, *from) : result.outputs[i]);
      continue;
    }
    const Placement& placement = traced.placements[i];
    Tensor& held = made[places[i]];
    held = from.value_or(here) == here ? tensors_.hold(result.outputs[i], type, placement, output.stored)
                                       : tensors_.hold_absent(type, placement, output.stored);
    if (from) stages_of_state_.emplace(held, *from);
  }
  return made;
}

}  // namespace transom
