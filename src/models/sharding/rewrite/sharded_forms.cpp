// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/sharded_forms.h"

#include <algorithm>

#include "base/error.h"
#include "models/sharding/rules/factor_cuts.h"

namespace transom {

// What a phase gathered of stored tensors is not kept for the next one, but for the last unit of the forward pass, with
// which the backward pass begins. In a pipeline other micro-batches come between.
void ShardedForms::enter(StepPhase phase) {
  const bool keep = keeps_gathered_ && phase == StepPhase::kBackward;
  phase_ = phase;
  if (keep) return;
  const bool follows = phase == StepPhase::kBackward && mesh_.size(MeshAxis::kPipeline) == 1;
  for (auto& [tensor, forms] : forms_)
    if (!forms.stored.empty() && forms.values.size() > 1 && !(follows && forms.used_in == resharder_.parameter_unit()))
      forms.values.resize(1);
}

void ShardedForms::place(const Tensor& input, ShardedValue value, MeshAxes stored) {
  forms_.insert_or_assign(input, Forms{{std::move(value)}, stored});
}

void ShardedForms::prefer(const Tensor& tensor, const Placement& placement) {
  preferred_.insert_or_assign(tensor, placement);
}

void ShardedForms::store(const NodePointer& node, std::vector<ShardedValue> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor tensor(node, static_cast<int>(i));
    if (change_) outputs[i] = change_(std::move(outputs[i]));
    if (const auto wanted = preferred_.find(tensor); wanted != preferred_.end()) {
      resharder_.work_for(Resharder::Purpose::kGradients);
      outputs[i] = resharder_.reshard(outputs[i], wanted->second);
      resharder_.work_for(Resharder::Purpose::kValues);
    }
    forms_.insert_or_assign(tensor, Forms{{std::move(outputs[i])}, {}});
  }
}

void ShardedForms::store_later(const Tensor& output, std::function<ShardedValue()> make) {
  forms_.insert_or_assign(output, Forms{{}, {}, -1, std::move(make)});
}

bool ShardedForms::is_awaited(const Tensor& tensor) const {
  const auto found = forms_.find(tensor);
  return found != forms_.end() && found->second.values.empty();
}

ShardedForms::Forms& ShardedForms::of(const Tensor& tensor) {
  const auto found = forms_.find(tensor);
  if (found != forms_.end()) {
    if (found->second.values.empty()) found->second.values.push_back(found->second.later());
    return found->second;
  }
  if (!tensor.node()->computed(tensor.output()))
    fail(ErrorKind::kInternal, "{}: a value of {} is to be sharded that nothing makes", *tensor.node()->scope,
         to_string(tensor.type()));
  return forms_[tensor] = Forms{{{tensor, tensor.shape(), replicated(tensor.shape().size())}}, {}};
}

ShardedValue ShardedForms::in_form(const Tensor& tensor, const Placement& placement) {
  Forms& forms = of(tensor);
  const ShardedValue* nearest = nullptr;
  double fewest = 0;
  for (const ShardedValue& value : forms.values) {
    if (value.placement == placement) {
      forms.used_in = resharder_.parameter_unit();
      return value;
    }
    const double bytes = bytes_moved(mesh_, tensor.type(), value.placement, placement);
    if (!nearest || bytes < fewest) nearest = &value, fewest = bytes;
  }
  if (!forms.stored.empty()) resharder_.work_for(Resharder::Purpose::kParameters);
  ShardedValue made = resharder_.reshard(*nearest, placement);
  resharder_.work_for(Resharder::Purpose::kValues);
  forms.used_in = resharder_.parameter_unit();
  forms.values.push_back(made);
  return made;
}

ShardedValue ShardedForms::used(const Tensor& tensor) {
  const Forms& forms = of(tensor);
  if (forms.stored.empty() || phase_ == StepPhase::kUpdate) return forms.values.front();
  return in_form(tensor, without_axes(mesh_, forms.values.front().placement, forms.stored));
}

void ShardedForms::drop(Test is_one_of, Test is_dropped) {
  for (auto& [tensor, forms] : forms_) {
    std::vector<ShardedValue>& values = forms.values;
    if (std::any_of(values.begin(), values.end(), is_one_of))
      values.erase(std::remove_if(values.begin() + 1, values.end(), is_dropped), values.end());
  }
}

}  // namespace transom
