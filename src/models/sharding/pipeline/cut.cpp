// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/pipeline/cut.h"

#include <algorithm>
#include <functional>
#include <set>

namespace transom {

PipelineCut::PipelineCut(const std::vector<Tensor>& outputs, const std::vector<std::optional<int64_t>>& homes,
                         const std::vector<Tensor>& weights, const PipelineStages& stages, uint64_t backward_from,
                         const TensorMap<int64_t>& kept)
    : graph_(make_graph(outputs)) {
  for (size_t i = 0; i < weights.size(); ++i) weight_numbers_.emplace(weights[i], i);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (homes.at(i)) delivered_.insert(outputs[i].node().get());
  place_nodes(needs_of(outputs, homes), stages, backward_from, kept);
  find_uses(outputs, stages.stages());
}

std::optional<PipelineCut::Place> PipelineCut::place_of(const Tensor& tensor) const {
  const auto found = placed_.find(tensor.node().get());
  return found == placed_.end() ? std::nullopt : found->second.place;
}

std::map<const Node*, int64_t> PipelineCut::needs_of(const std::vector<Tensor>& outputs,
                                                     const std::vector<std::optional<int64_t>>& homes) const {
  std::map<const Node*, int64_t> needs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t& need = needs[outputs[i].node().get()];
    need = std::max(need, homes[i].value_or(0));
  }
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    const int64_t of_result = needs[node->get()];
    for (const Tensor& input : (*node)->inputs) {
      int64_t& need = needs[input.node().get()];
      need = std::max(need, of_result);
    }
  }
  return needs;
}

void PipelineCut::place_nodes(const std::map<const Node*, int64_t>& needs, const PipelineStages& stages,
                              uint64_t backward_from, const TensorMap<int64_t>& kept) {
  struct Kind {
    bool data = false, weight = false;
  };
  std::map<const Node*, Kind> kinds;
  std::map<const std::string*, std::optional<int64_t>> of_scopes;
  for (const std::shared_ptr<Node>& node : graph_.nodes) {
    Kind kind;
    bool pinned = false;
    int64_t latest = -1, earliest = stages.stages();  // of forward and of backward inputs
    std::set<size_t> of_weights;
    for (const Tensor& input : node->inputs) {
      const auto found = placed_.find(input.node().get());
      if (found == placed_.end()) {
        const auto weight = weight_numbers_.find(input);
        const auto of_stage = kept.find(input);
        if (of_stage != kept.end()) pinned = kind.data = true, latest = std::max(latest, of_stage->second);
        else if (weight == weight_numbers_.end()) kind.data = true;
        else kind.weight = true, of_weights.insert(weight->second);
        continue;
      }
      const Kind& of_input = kinds.at(input.node().get());
      kind.data |= of_input.data;
      kind.weight |= of_input.weight;
      of_weights.insert(found->second.weights.begin(), found->second.weights.end());
      if (!found->second.place) continue;
      pinned = true;
      if (found->second.place->backward) earliest = std::min(earliest, found->second.place->stage);
      else latest = std::max(latest, found->second.place->stage);
    }
    Placed placed;
    if (pinned || (kind.data && kind.weight)) {
      auto scope = of_scopes.find(node->scope);
      if (scope == of_scopes.end()) scope = of_scopes.emplace(node->scope, stages.stage_of(*node->scope)).first;
      const bool backward = node->sequence >= backward_from;
      int64_t stage = 0;
      if (!backward) {
        stage = std::max(latest, scope->second.value_or(std::max<int64_t>(latest, 0)));
      } else {
        const int64_t need = needs.at(node.get());
        const bool has_gradients = earliest < stages.stages();
        stage = scope->second.value_or(has_gradients ? earliest : std::max(latest, need));
        if (delivered_.contains(node.get())) stage = need;
        stage = std::clamp(stage, need, std::max(need, std::min(earliest, stages.stages() - 1)));
      }
      placed.place = Place{stage, backward};
    } else {
      placed.weights.assign(of_weights.begin(), of_weights.end());
    }
    kinds[node.get()] = kind;
    placed_[node.get()] = std::move(placed);
  }
}

void PipelineCut::find_uses(const std::vector<Tensor>& outputs, int64_t stages) {
  std::vector<std::set<size_t>> weights(static_cast<size_t>(stages));
  struct Uses {
    std::set<int64_t> stages;  // other than that which makes it
    bool outside = false;      // it leaves the place that makes it
  };
  TensorMap<Uses> uses;
  std::vector<Tensor> order;  // as made
  for (const std::shared_ptr<Node>& node : graph_.nodes) {
    const std::optional<Place>& place = placed_.at(node.get()).place;
    if (!place) continue;
    for (size_t i = 0; i < node->types.size(); ++i) order.emplace_back(node, static_cast<int>(i));
    auto& needed = weights[static_cast<size_t>(place->stage)];
    for (const Tensor& input : node->inputs) {
      if (const auto weight = weight_numbers_.find(input); weight != weight_numbers_.end())
        needed.insert(weight->second);
      const auto found = placed_.find(input.node().get());
      if (found == placed_.end()) continue;
      needed.insert(found->second.weights.begin(), found->second.weights.end());
      if (!found->second.place || *found->second.place == *place) continue;
      Uses& of_input = uses[input];
      of_input.outside = true;
      if (found->second.place->stage != place->stage) of_input.stages.insert(place->stage);
    }
  }
  for (const Tensor& output : outputs) {
    output_places_.push_back(place_of(output));
    if (output_places_.back()) uses[output].outside = true;
  }
  for (const Tensor& value : order) {
    const auto found = uses.find(value);
    if (found == uses.end() || !found->second.outside) continue;
    const Place place = *place_of(value);
    made_.emplace_back(place, value);
    for (const int64_t to : found->second.stages) {
      messages_.push_back({value, place.stage, to});
      message_places_.push_back(place);
    }
  }
  for (const auto& each : weights) weights_of_stages_.emplace_back(each.begin(), each.end());
}

std::vector<PipelineCut::Message> PipelineCut::messages_after(const Place& place) const {
  std::vector<Message> result;
  for (size_t i = 0; i < messages_.size(); ++i)
    if (message_places_[i] == place) result.push_back(messages_[i]);
  return result;
}

std::vector<Tensor> PipelineCut::made_at(const Place& place) const {
  std::vector<Tensor> result;
  for (const auto& [where, value] : made_)
    if (where == place) result.push_back(value);
  return result;
}

std::vector<std::pair<Tensor, Tensor>> PipelineCut::program(const Place& place, const TensorMap<Tensor>& known) const {
  const CompilerScope compiler;
  std::set<const Node*> wanted;  // of this place, and what floats and is needed here
  std::vector<const Node*> pending;
  for (const auto& [where, value] : made_)
    if (where == place) pending.push_back(value.node().get());
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!wanted.insert(node).second) continue;
    for (const Tensor& input : node->inputs) {
      const auto found = placed_.find(input.node().get());
      if (found != placed_.end() && (!found->second.place || *found->second.place == place))
        pending.push_back(input.node().get());
    }
  }
  std::map<const Node*, std::shared_ptr<Node>> copies;
  const auto here = [&](const Tensor& tensor) {
    if (const auto copy = copies.find(tensor.node().get()); copy != copies.end())
      return Tensor(copy->second, tensor.output());
    const auto found = known.find(tensor);
    return found == known.end() ? tensor : found->second;
  };
  for (const std::shared_ptr<Node>& node : graph_.nodes) {
    if (!wanted.contains(node.get())) continue;
    std::vector<Tensor> inputs;
    for (const Tensor& input : node->inputs) inputs.push_back(here(input));
    const UseScope scope(node->scope);
    copies[node.get()] = make_node(*node->operation, std::move(inputs), node->attributes, node->region);
  }
  std::vector<std::pair<Tensor, Tensor>> result;
  for (const auto& [where, value] : made_)
    if (where == place) result.emplace_back(value, here(value));
  return result;
}

}  // namespace transom
