// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/inference.h"

#include "base/error.h"
#include "graph/ir/node.h"
#include "graph/ir/tensor_map.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"

namespace transom {
namespace {

ShardingLayout checked(const ShardingLayout& layout, int64_t ranks) {
  int64_t product = 1;
  for (const int64_t size : layout.sizes) product *= size;
  if (product != ranks)
    fail(ErrorKind::kUsage, "tp_size {} x pp_size {} x ep_size {}: expected the number of processes, {}, found {}",
         layout.size(MeshAxis::kTensor), layout.size(MeshAxis::kPipeline), layout.size(MeshAxis::kExpert), ranks,
         product);
  return layout;
}

// Codes of compressed weights are not cut: each process would hold all of them.
Model& plain(Model& model) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (parameter->packed)
        fail(ErrorKind::kUnsupported,
             "{}: compressed weights cannot be spread over processes; load plain ones, without --quantization",
             parameter->name);
  return model;
}

// What every process has anyway.
bool is_given(const Tensor& tensor) { return is_input(*tensor.node()) && tensor.node()->computed(tensor.output()); }

}  // namespace

ShardedInference::ShardedInference(Model& model, const ShardingLayout& layout, int64_t rank, int64_t ranks)
    : sharding_(plain(model), checked(layout, ranks), rank, ranks) {
  sharding_.fix_weights();
}

std::vector<Tensor> ShardedInference::evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) {
  ShardedTensors& tensors = sharding_.tensors();
  ShardedRequest request;
  for (const Tensor& output : outputs) request.outputs.push_back({output, std::nullopt});
  std::vector<size_t> kept;  // of `state`
  for (size_t i = 0; i < state.size(); ++i) {
    if (is_given(state[i])) continue;
    kept.push_back(i);
    request.outputs.push_back({.tensor = state[i], .placement = std::nullopt, .as_computed = true});
  }
  TensorSet replaced;
  for (const Tensor& old : state_)
    if (tensors.holds(old) && replaced.insert(old).second) request.replaced.push_back(old);
  const std::vector<Tensor> made = sharding_.answer(std::move(request));
  std::vector<Tensor> result = state;
  state_.clear();
  for (size_t i = 0; i < kept.size(); ++i) state_.push_back(result[kept[i]] = made[outputs.size() + i]);
  return result;
}

bool ShardedInference::leads() const { return process_rank() == 0; }

std::string ShardedInference::from_leader(const std::string& mine) {
  ProcessGroup* group = process_group();
  return group ? group->from_main(mine) : mine;
}

}  // namespace transom
