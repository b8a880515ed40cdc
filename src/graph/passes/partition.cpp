// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/partition.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "graph/passes/place_on_host.h"

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
    const std::unordered_map<int64_t, size_t> starts = places_of_units(collectives);
    for (size_t begin = 0, end = 0; begin < collectives.size(); begin = end) {
      end = begin + 1;
      const int64_t unit = unit_of(*collectives[begin]);
      while (end < collectives.size() && unit >= 0 && unit_of(*collectives[end]) == unit) ++end;
      std::vector<size_t> needed;
      for (size_t i = begin; i < end; ++i) find_needed(*collectives[i], needed);
      if (const int64_t late = collectives[begin]->attributes.get_int("late", -1); late >= 0) {
        const auto start = starts.find(late);
        find_before(start == starts.end() ? starts.at(unit) : start->second, needed);
      }
      add_partitions(std::move(needed), collectives[begin]);
      for (size_t i = begin + 1; i < end; ++i) add_partitions({}, collectives[i]);
      for (size_t i = begin; i < end; ++i) placed_[place_.at(collectives[i].get())] = true;
    }
    std::vector<size_t> rest;
    for (size_t i = 0; i < placed_.size(); ++i)
      if (!placed_[i]) rest.push_back(i);
    add_partitions(std::move(rest), nullptr);
    return std::move(partitions_);
  }

 private:
  static int64_t unit_of(const Node& collective) { return collective.attributes.get_int("unit", -1); }

  // Where the first collective of each unit stands in the graph.
  std::unordered_map<int64_t, size_t> places_of_units(const std::vector<std::shared_ptr<Node>>& collectives) const {
    std::unordered_map<int64_t, size_t> result;
    for (const std::shared_ptr<Node>& collective : collectives) {
      const size_t place = place_.at(collective.get());
      const auto [found, fresh] = result.try_emplace(unit_of(*collective), place);
      if (!fresh) found->second = std::min(found->second, place);
    }
    return result;
  }

  // The nodes that are not placed yet and that the collective's inputs are computed from; depth first without
  // recursion, since graphs are deep.
  void find_needed(const Node& collective, std::vector<size_t>& needed) {
    std::vector<const Node*> pending;
    for (const Tensor& input : collective.inputs) pending.push_back(input.node().get());
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      const auto found = place_.find(node);
      if (found == place_.end() || placed_[found->second]) continue;  // an input, or in an earlier partition
      if (is_collective(*node))
        fail(ErrorKind::kInternal, "a collective of order {} depends on a later one, of order {}",
             collective.attributes.get_int("order"), node->attributes.get_int("order"));
      placed_[found->second] = true;
      needed.push_back(found->second);
      for (const Tensor& input : node->inputs) pending.push_back(input.node().get());
    }
  }

  // The nodes before this place that are not placed yet and wait for no later collective.
  void find_before(size_t end, std::vector<size_t>& needed) {
    for (size_t i = 0; i < end; ++i) {
      if (placed_[i] || is_collective(*graph_.nodes[i])) continue;
      const bool ready =
          std::all_of(graph_.nodes[i]->inputs.begin(), graph_.nodes[i]->inputs.end(), [&](const Tensor& input) {
            const auto found = place_.find(input.node().get());
            return found == place_.end() || placed_[found->second];
          });
      if (!ready) continue;
      placed_[i] = true;
      needed.push_back(i);
    }
  }

  // The nodes at these places and then the collective, in as many partitions as changes of the place need.
  void add_partitions(std::vector<size_t> places, std::shared_ptr<Node> collective) {
    std::sort(places.begin(), places.end());
    std::vector<Partition> from_device = take_turns(places, false), from_host = take_turns(places, true);
    std::vector<Partition>& best = from_device.size() <= from_host.size() ? from_device : from_host;
    if (best.empty()) best.emplace_back();
    best.back().collective = std::move(collective);
    std::move(best.begin(), best.end(), std::back_inserter(partitions_));
  }

  // Everything that can run in one place, then everything that can run in the other, and so on.
  std::vector<Partition> take_turns(const std::vector<size_t>& places, bool on_host) const {
    std::vector<Partition> turns;
    std::unordered_set<const Node*> waiting;
    for (const size_t place : places) waiting.insert(graph_.nodes[place].get());
    for (; !waiting.empty(); on_host = !on_host) {
      Partition turn{.nodes = {}, .on_host = on_host, .collective = nullptr};
      for (const size_t place : places) {
        const std::shared_ptr<Node>& node = graph_.nodes[place];
        if (!waiting.contains(node.get()) || is_on_host(*node) != on_host ||
            std::any_of(node->inputs.begin(), node->inputs.end(),
                        [&](const Tensor& input) { return waiting.contains(input.node().get()); }))
          continue;
        waiting.erase(node.get());
        turn.nodes.push_back(node);
      }
      if (!turn.nodes.empty()) turns.push_back(std::move(turn));
    }
    return turns;
  }

  const Graph& graph_;
  std::unordered_map<const Node*, size_t> place_;
  std::vector<bool> placed_;
  std::vector<Partition> partitions_;
};

}  // namespace

bool is_collective(const Node& node) { return node.operation->collective; }

bool needs_partition(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const std::shared_ptr<Node>& node) { return is_collective(*node) || is_on_host(*node); });
}

std::vector<Partition> partition_graph(const Graph& graph) { return Partitioner(graph).partition(); }

}  // namespace transom
