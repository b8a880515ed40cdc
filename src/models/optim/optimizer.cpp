// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizer.h"

#include <unordered_map>

#include "base/error.h"
#include "transom/ops.h"

namespace transom {

void Optimizer::initialise(const std::vector<OptimizedParameter>& parameters) {
  if (state_.empty()) state_ = initial_state(parameters);
}

void Optimizer::keep_unless(const Tensor& applies, const Tensor& parameter, const std::vector<Tensor>& state,
                            Update& update) {
  update.parameter = select(applies, update.parameter, parameter);
  for (size_t k = 0; k < state.size(); ++k) update.state[k] = select(applies, update.state[k], state[k]);
}

std::vector<Tensor> Optimizer::step(const std::vector<OptimizedParameter>& parameters,
                                    const std::vector<Tensor>& gradients, double learning_rate,
                                    const std::map<size_t, RowGradient>& by_rows, const Tensor& applies) {
  if (gradients.size() != parameters.size())
    fail("optimizer: expected a gradient for each of {} parameters, found {}", parameters.size(), gradients.size());
  const NoGradient updates_are_not_differentiated;
  begin_step(++steps_, learning_rate);
  initialise(parameters);
  const ModuleScope scope("optimizer");  // a device may keep what only these nodes read in slower memory
  std::vector<Tensor> result;
  std::vector<std::pair<std::string, Tensor>> next;
  size_t place = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto types = state_types(parameters[i]);
    std::vector<Tensor> before;
    for (const auto& [prefix, type] : types) {
      const std::string name = prefix + "." + parameters[i].name;
      if (place >= state_.size() || state_[place].first != name)
        fail("optimizer: expected the parameters of its first step, found {} in place of {}", name,
             place < state_.size() ? state_[place].first : "none");
      before.push_back(state_[place++].second);
    }
    const auto rows = by_rows.find(i);
    Update update;
    if (rows == by_rows.end()) {
      update = this->update(parameters[i], gradients[i], before);
      if (applies.defined()) keep_unless(applies, parameters[i].value, before, update);
    } else {
      // Rows of zeros change nothing; a selection would pass over the whole table.
      RowGradient gradient = rows->second;
      if (applies.defined()) gradient.rows = select(applies, gradient.rows, constant(0, gradient.rows.dtype()));
      update = update_rows(parameters[i], gradient, before);
    }
    result.push_back(std::move(update.parameter));
    for (size_t k = 0; k < types.size(); ++k)
      next.emplace_back(types[k].first + "." + parameters[i].name, std::move(update.state[k]));
  }
  state_ = std::move(next);
  return result;
}

std::vector<std::pair<std::string, Tensor>> Optimizer::initial_state(
    const std::vector<OptimizedParameter>& parameters) const {
  std::vector<std::pair<std::string, Tensor>> state;
  // Computed now: as constants of the first step they would make it another program than the steps that follow. One by
  // one: together, equal ones would be one buffer.
  for (const auto& [name, type] : state_layout(parameters)) {
    state.emplace_back(name, zeros(type.shape, type.dtype));
    eval({&state.back().second, 1});
  }
  return state;
}

std::vector<std::pair<std::string, Type>> Optimizer::state_layout(
    const std::vector<OptimizedParameter>& parameters) const {
  std::vector<std::pair<std::string, Type>> layout;
  for (const OptimizedParameter& parameter : parameters)
    for (const auto& [name, type] : state_types(parameter)) layout.emplace_back(name + "." + parameter.name, type);
  return layout;
}

void Optimizer::load(int64_t steps, std::vector<std::pair<std::string, Tensor>> state,
                     const std::vector<OptimizedParameter>& parameters) {
  std::unordered_map<std::string, Tensor> by_name(state.begin(), state.end());
  std::vector<std::pair<std::string, Tensor>> ordered;
  for (const OptimizedParameter& parameter : parameters)
    for (const auto& [prefix, type] : state_types(parameter)) {
      const std::string name = prefix + "." + parameter.name;
      const auto found = by_name.find(name);
      if (found == by_name.end())
        fail("the optimizer state to resume from lacks '{}'; was it saved with another optimizer?", name);
      if (found->second.type() != type)
        fail("the optimizer state '{}' is {}, expected {}", name, to_string(found->second.type()), to_string(type));
      ordered.emplace_back(name, found->second);
    }
  state_ = std::move(ordered);
  steps_ = steps;
}

Optimizer::Update Optimizer::update_rows(const OptimizedParameter& parameter, const RowGradient&,
                                         const std::vector<Tensor>&) {
  fail(ErrorKind::kInternal, "{}: this optimizer takes no gradients by rows", parameter.name);
}

RowGradient coalesced(const Tensor& indices, const Tensor& rows) {
  const int64_t N = indices.dim(0);
  if (N == 0) return {indices, rows};
  // Equal indices are neighbours once they are sorted; each run of them gets a place of its own.
  const auto [sorted, places] = sort(indices, 0);
  const Tensor begins = concatenate(
      {full({1}, 1, DType::kInt64), cast(not_equal(slice(sorted, 0, 1, N), slice(sorted, 0, 0, N - 1)), DType::kInt64)},
      0);
  const Tensor run = cumulative_sum(begins, 0) - 1.0;
  return {scatter_add(zeros({N}, DType::kInt64), run, sorted * begins, 0),
          scatter_add(zeros(rows.shape(), rows.dtype()), run, gather(rows, places, 0), 0)};
}

Tensor global_norm(const std::vector<Tensor>& gradients) {
  Tensor total;
  for (const Tensor& gradient : gradients) {
    const Tensor wide = cast(gradient, DType::kFloat32);
    const Tensor part = sum(wide * wide);
    total = total.defined() ? total + part : part;
  }
  return total.defined() ? sqrt(total) : constant(0);
}

std::vector<Tensor> clip_by_norm(const std::vector<Tensor>& gradients, const Tensor& norm, double maximum) {
  const Tensor factor = minimum(constant(maximum) / (norm + 1e-6), constant(1));
  std::vector<Tensor> result;
  for (const Tensor& gradient : gradients) result.push_back(gradient * cast(factor, gradient.dtype()));
  return result;
}

}  // namespace transom
