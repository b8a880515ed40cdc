// SPDX-License-Identifier: Apache-2.0
// Another order of the same nodes in which less memory is live at once. Nodes that make more than they free move
// down to just before their first reader; nodes that free more than they make move up to just behind the last maker of
// what they read. Each of the orders is measured, and the given one stays unless another needs clearly less.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/ir/tensor_map.h"
#include "graph/passes/memory_plan.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph) : graph_(graph), makers_(graph.nodes.size()), readers_(graph.nodes.size()) {
    std::unordered_map<const Node*, size_t> index;
    TensorMap<size_t> last_use;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      index.emplace(graph.nodes[n].get(), n);
      for (const Tensor& input : graph.nodes[n]->inputs) {
        last_use[input] = n;
        const auto maker = index.find(input.node().get());
        if (maker == index.end()) continue;
        makers_[n].push_back(maker->second);
        readers_[maker->second].push_back(n);
      }
    }
    const TensorSet outputs(graph.outputs.begin(), graph.outputs.end());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      int64_t growth = 0;  // of what lives in the arena, by this node
      TensorSet ended;
      for (const Tensor& output : outputs_of(graph.nodes[n]))
        if (!outputs.contains(output)) growth += bytes_of(output.type());
      for (const Tensor& input : graph.nodes[n]->inputs)
        if (index.contains(input.node().get()) && !outputs.contains(input) && last_use.at(input) == n &&
            ended.insert(input).second)
          growth -= bytes_of(input.type());
      growth_.push_back(growth);
    }
  }

  Graph order(bool sink, bool hoist) const {
    const size_t count = graph_.nodes.size();
    std::vector<size_t> place(count), order(count);
    std::iota(place.begin(), place.end(), size_t{0});
    if (sink)
      for (size_t n = count; n-- > 0;) {
        if (growth_[n] <= 0 || readers_[n].empty()) continue;
        size_t first = count;
        for (const size_t reader : readers_[n]) first = std::min(first, place[reader]);
        place[n] = first;
      }
    if (hoist)
      for (size_t n = 0; n < count; ++n) {
        if (growth_[n] >= 0 || makers_[n].empty()) continue;
        size_t last = 0;
        for (const size_t maker : makers_[n]) last = std::max(last, place[maker]);
        place[n] = std::min(place[n], last);
      }
    // Of nodes in one place the earlier ones come first: they are made before they are read.
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place[a] < place[b]; });
    Graph result{graph_.inputs, {}, graph_.outputs};
    for (const size_t n : order) result.nodes.push_back(graph_.nodes[n]);
    return result;
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<size_t>> makers_, readers_;
  std::vector<int64_t> growth_;
};

}  // namespace

Graph schedule(const Graph& graph) {
  const Scheduler scheduler(graph);
  Graph best = graph;
  // Less by a hundredth at least: neighbours in the given order also share caches.
  int64_t least = live_maximum(graph) / 100 * 99;
  for (const auto& [sink, hoist] : {std::pair{true, false}, {false, true}, {true, true}}) {
    Graph candidate = scheduler.order(sink, hoist);
    const int64_t live = live_maximum(candidate);
    if (live >= least) continue;
    least = live;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace transom
