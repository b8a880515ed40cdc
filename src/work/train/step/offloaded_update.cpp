// SPDX-License-Identifier: Apache-2.0
// Updates whose optimizer state lies in host memory (Ren et al., "ZeRO-Offload", 2021; there the host computes the
// update too, here the device does, so that the bits are those of a state that stays there). Forward and backward pass
// run without it. Then parameters are updated in groups: the states of a group come to the device, and go back while
// the next group is computed. So no more than those of two groups are there at once.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/threads/interrupt.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

// Bytes of states of a group: few beside all of them, and beside what a device has, but enough for transfers at full
// speed.
int64_t group_bytes(int64_t all) { return std::clamp(all / 8, int64_t{1} << 20, int64_t{64} << 20); }

struct UpdateGroup {
  size_t parameters = 0, states = 0;  // one behind its last ones
};

// Consecutive parameters; one with more than the limit is a group of its own. All processes find the same groups.
// `bytes`: of the states of each parameter; `counts`: how many it has.
std::vector<UpdateGroup> groups_of(const std::vector<int64_t>& bytes, const std::vector<size_t>& counts) {
  std::vector<UpdateGroup> groups;
  const int64_t limit = group_bytes(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  int64_t sum = 0;
  UpdateGroup end;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (end.parameters > 0 && sum + bytes[i] > limit) groups.push_back(end), sum = 0;
    sum += bytes[i];
    end.parameters = i + 1;
    end.states += counts[i];
  }
  if (end.parameters > 0) groups.push_back(end);
  return groups;
}

}  // namespace

Tensor TrainStep::loaded_state(std::span<const std::byte> bytes, const Type& type) const {
  if (!offloads_state_) return Tensor::from_bytes(bytes, type);
  return in_host_memory(std::vector<std::byte>(bytes.begin(), bytes.end()), type);
}

void TrainStep::move_state_to_host() {
  std::vector<std::pair<std::string, Tensor>> state = optimizer_->state();
  if (state.empty())
    for (const auto& [name, type] : optimizer_->state_layout(parameters()))
      state.emplace_back(
          name, in_host_memory(std::vector<std::byte>(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype)),
                               type));
  for (auto& [name, tensor] : state)
    if (!is_in_host_memory(tensor)) tensor = in_host_memory(tensor);
  optimizer_->restore(optimizer_->steps(), std::move(state));
}

void TrainStep::compute_gradients(std::vector<Tensor>& gradients, std::map<size_t, RowGradient>& by_rows,
                                  const std::vector<Tensor>& numbers, const Tensor& flag_before) {
  if (!sharding_) {
    std::vector<Tensor> now = numbers;
    for (const auto& buffer : replaced_buffers()) now.push_back(buffer->value);
    for (const Tensor& gradient : gradients)
      if (gradient.defined()) now.push_back(gradient);
    for (const auto& [number, gradient] : by_rows) now.push_back(gradient.indices), now.push_back(gradient.rows);
    return eval(now);
  }
  gradients_.assign(gradients.size(), Tensor());
  ShardedRequest request{.phases = phases_};
  for (const Tensor& number : numbers) request.outputs.push_back({number, std::nullopt});
  for (const auto& buffer : model_.buffers()) request.outputs.push_back({buffer->value, std::nullopt});
  std::vector<size_t> places;
  const size_t first = request.outputs.size();
  for (size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    places.push_back(k);
    const Placement home = sharding_->state_home_of(*trained_[k]);
    request.outputs.push_back({gradients[k], home});
    request.preferred.emplace_back(gradients[k], home);
  }
  if (finite_) request.outputs.push_back({finite_->flag()->value, replicated(1)});
  request.consumed = std::exchange(accumulated_, {});
  if (finite_) request.replaced.push_back(flag_before);
  const std::vector<Tensor> made = sharding_->evaluate(std::move(request), evaluation_);
  for (size_t i = 0; i < places.size(); ++i) gradients_[places[i]] = gradients[places[i]] = made[first + i];
  if (finite_) finite_->flag()->value = made.back();
}

TrainStep::Result TrainStep::offloaded_step(const std::vector<NamedTensors>& micro_batches, double learning_rate,
                                            int64_t step) {
  const ModeScope together(Mode::kLazy);
  move_state_to_host();
  Rollback before(trained_, replaced_buffers(), *optimizer_);
  const Result result = trace(micro_batches, learning_rate, step);
  update_in_groups(before);
  before.discard();
  for (const auto& parameter : trained_) parameter->value.set_requires_grad();
  return result;
}

void TrainStep::update_in_groups(const Rollback& before) {
  // Half an update is none: whoever stops the run is heard before the next step.
  const InterruptScope uninterrupted{std::stop_token()};
  std::vector<int64_t> bytes;
  std::vector<size_t> counts;
  for (const OptimizedParameter& parameter : parameters()) {
    const auto layout = optimizer_->state_layout({parameter});
    counts.push_back(layout.size());
    bytes.push_back(0);
    for (const auto& [name, type] : layout)
      bytes.back() += elements(type.shape) * static_cast<int64_t>(size_of(type.dtype));
  }
  const std::vector<std::pair<std::string, Tensor>> state_before = before.state_in_host_memory();
  UpdateGroup reached, back;  // updated; of which the states are in host memory again
  const auto take_back_to_host = [&](const UpdateGroup& to) {
    std::vector<std::pair<std::string, Tensor>> state = optimizer_->state();
    for (size_t j = back.states; j < to.states; ++j)
      state[j].second = in_host_memory(state[j].second, state_before[j].second);
    optimizer_->restore(optimizer_->steps(), std::move(state));
    back = to;
  };
  try {
    for (const UpdateGroup& group : groups_of(bytes, counts)) {
      std::vector<Tensor> now;
      for (size_t i = reached.parameters; i < group.parameters; ++i) now.push_back(trained_[i]->value);
      for (size_t j = reached.states; j < group.states; ++j) now.push_back(optimizer_->state()[j].second);
      eval(now, [&](const auto& buffer) { return before.references_to(buffer); });
      now.clear();
      // Of one node with the states, which it would hold.
      for (size_t i = reached.parameters; i < group.parameters; ++i) {
        Tensor& value = trained_[i]->value;
        value = make_input(value.type(), buffer_of(value));
      }
      if (reached.parameters > 0) take_back_to_host(reached);
      reached = group;
    }
    take_back_to_host(reached);
  } catch (...) {
    // Parameters of groups before have new values in the memory of the old ones.
    for (size_t i = 0; i < reached.parameters; ++i) buffer_of(trained_[i]->value)->set_overwritten();
    throw;
  }
}

void TrainStep::update_in_groups(const HeldUpdate& update) {
  const InterruptScope uninterrupted{std::stop_token()};
  ShardedTensors& tensors = sharding_->tensors();
  std::vector<int64_t> bytes;
  std::vector<size_t> counts;
  size_t place = 0;
  for (const OptimizedParameter& parameter : parameters()) {
    const auto is_updated = std::any_of(update.parameters.begin(), update.parameters.end(),
                                        [&](const auto& each) { return each->name == parameter.name; });
    if (!is_updated) continue;  // another stage's
    const size_t count = optimizer_->state_layout({parameter}).size();
    int64_t sum = 0;
    for (size_t k = 0; k < count; ++k, ++place) {
      const Tensor& state = update.state_before[place].second;
      const int64_t parts = tensors.mesh().size(tensors.value(state).placement.sharded());
      sum += state.size() * static_cast<int64_t>(size_of(state.dtype())) / parts;
    }
    counts.push_back(count);
    bytes.push_back(sum);
  }
  std::vector<std::pair<std::string, Tensor>> next = optimizer_->state();
  const std::vector<std::pair<std::string, Tensor>> graphs = next;
  struct OnDevice {
    Tensor state, reused;
  };
  std::vector<OnDevice> on_device;
  const auto take_back_to_host = [&] {
    for (const OnDevice& each : on_device) tensors.move_to_host(each.state, each.reused);
    on_device.clear();
  };
  UpdateGroup reached;
  for (const UpdateGroup& group : groups_of(bytes, counts)) {
    ShardedRequest request{.phases = {.update_from = 0}};
    for (size_t i = reached.parameters; i < group.parameters; ++i) {
      const Parameter& parameter = *update.parameters[i];
      request.outputs.push_back({update.next[i], sharding_->home_of(parameter), sharding_->stored_axes()});
      request.replaced.push_back(update.before[i]);
      if (update.gradients[i].defined()) request.replaced.push_back(update.gradients[i]);
    }
    std::vector<OnDevice> now;
    for (size_t j = reached.states; j < group.states; ++j) {
      const Tensor& old = update.state_before[j].second;
      request.outputs.push_back({graphs[j].second, tensors.value(old).placement});
      request.replaced.push_back(old);
      now.push_back({{}, tensors.value(old).local});
    }
    const std::vector<Tensor> made = sharding_->evaluate(std::move(request), evaluation_);
    auto result = made.begin();
    for (size_t i = reached.parameters; i < group.parameters; ++i) {
      update.parameters[i]->value = *result++;
      update.parameters[i]->value.set_requires_grad();
    }
    for (size_t j = reached.states; j < group.states; ++j) next[j].second = now[j - reached.states].state = *result++;
    take_back_to_host();
    on_device = std::move(now);
    reached = group;
  }
  take_back_to_host();
  optimizer_->restore(optimizer_->steps(), std::move(next));
}

}  // namespace transom
