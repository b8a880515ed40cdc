// SPDX-License-Identifier: Apache-2.0
#include "passes/partition.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace transom {
namespace {

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) place_[graph.nodes[i].get()] = i;
    placed_.resize(graph.nodes.size());
  }

  std::vector<Partition> partition() {
    std::vector<std::shared_ptr<Node>> collectives;
    for (const std::shared_ptr<Node>& node : graph_.nodes)
      if (is_collective(*node)) collectives.push_back(node);
    std::stable_sort(collectives.begin(), collectives.end(), [](const auto& a, const auto& b) {
      return a->attributes.get_int("order") < b->attributes.get_int("order");
    });
    for (const std::shared_ptr<Node>& collective : collectives) {
      std::vector<size_t> needed;
      find_needed(collective->inputs[0], needed);
      add_partition(std::move(needed), collective);
      placed_[place_.at(collective.get())] = true;
    }
    std::vector<size_t> rest;
    for (size_t i = 0; i < placed_.size(); ++i)
      if (!placed_[i]) rest.push_back(i);
    add_partition(std::move(rest), nullptr);
    return std::move(partitions_);
  }

 private:
  // The nodes that are not placed yet and that the tensor is computed from; depth first without recursion, since graphs
  // are deep.
  void find_needed(const Tensor& tensor, std::vector<size_t>& needed) {
    std::vector<const Node*> pending{tensor.node().get()};
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      const auto found = place_.find(node);
      if (found == place_.end() || placed_[found->second]) continue;  // an input, or in an earlier partition
      if (is_collective(*node))
        fail(ErrorKind::kInternal, "a collective of order {} depends on a later one, of order {}", partitions_.size(),
             node->attributes.get_int("order"));
      placed_[found->second] = true;
      needed.push_back(found->second);
      for (const Tensor& input : node->inputs) pending.push_back(input.node().get());
    }
  }

  void add_partition(std::vector<size_t> places, std::shared_ptr<Node> collective) {
    std::sort(places.begin(), places.end());
    Partition& added = partitions_.emplace_back();
    for (const size_t place : places) added.nodes.push_back(graph_.nodes[place]);
    added.collective = std::move(collective);
  }

  const Graph& graph_;
  std::unordered_map<const Node*, size_t> place_;
  std::vector<bool> placed_;
  std::vector<Partition> partitions_;
};

}  // namespace

bool is_collective(const Node& node) { return node.operation->collective; }

std::vector<Partition> partition_at_collectives(const Graph& graph) { return Partitioner(graph).partition(); }

}  // namespace transom
