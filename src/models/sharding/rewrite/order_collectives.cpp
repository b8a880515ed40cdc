// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/order_collectives.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "graph/ir/graph.h"

namespace transom {
namespace {

using NodePointer = std::shared_ptr<Node>;

constexpr int64_t kUnitBytes = int64_t{32} << 20;
constexpr int64_t kLevels = int64_t{1} << 20;

bool gathers_parameter(const Node& node) { return node.attributes.has("unit") && node.attributes.has("late"); }
bool sums_gradient(const Node& node) { return node.attributes.has("unit") && !node.attributes.has("late"); }

class Orderer {
 public:
  explicit Orderer(const std::vector<Tensor>& outputs) : nodes_(make_graph(outputs).nodes) {
    std::unordered_set<const Node*> exchanged;  // what is computed from results of collectives
    for (const NodePointer& node : nodes_) {
      const bool depends = std::any_of(node->inputs.begin(), node->inputs.end(),
                                       [&](const Tensor& input) { return exchanged.contains(input.node().get()); });
      if (depends || node->operation->collective) exchanged.insert(node.get());
      // One that waits for another collective is gathered where it is used.
      if (depends || !node->operation->collective || !gathers_parameter(*node)) continue;
      const int64_t number = node->attributes.get_int("unit");
      if (units_.empty() || units_.back().number != number) {
        first_of_unit_.emplace(node.get(), units_.size());
        units_.push_back({number, {}});
      }
      units_.back().gathers.push_back(node);
      in_unit_.insert(node.get());
    }
    next_number_ = static_cast<int64_t>(units_.size());
  }

  void order() {
    for (const NodePointer& node : nodes_) {
      int64_t sums = -1;  // the last level of sums of gradients that it waits for
      for (const Tensor& input : node->inputs)
        if (const auto found = sums_behind_.find(input.node().get()); found != sums_behind_.end())
          sums = std::max(sums, found->second);
      if (node->operation->collective) sums = place(node, sums);
      if (sums >= 0) sums_behind_.emplace(node.get(), sums);
    }
    put_sums();
  }

 private:
  struct Unit {
    int64_t number;
    std::vector<NodePointer> gathers;
  };

  // What follows the collective waits for this level of sums.
  int64_t place(const NodePointer& node, int64_t sums) {
    if (const auto first = first_of_unit_.find(node.get()); first != first_of_unit_.end()) {
      if (first->second == 0) put_unit(0);
      put_unit(first->second + 1);
    }
    if (in_unit_.contains(node.get())) return sums;
    if (sums_gradient(*node)) {
      if (!pending_.empty() && pending_unit_ != node->attributes.get_int("unit")) put_sums();
      pending_unit_ = node->attributes.get_int("unit");
      const int64_t level = std::max(sums + 1, group_ * kLevels);
      pending_.emplace_back(level, node);
      return level;
    }
    if (sums >= group_ * kLevels) put_sums();
    if (gathers_parameter(*node)) {
      node->attributes.set("unit", next_number_);
      node->attributes.set("late", next_number_++);
    }
    put(node);
    return sums;
  }

  void put(const NodePointer& node) { node->attributes.set("order", next_order_++); }

  void put_unit(size_t unit) {
    if (unit >= units_.size()) return;
    for (const NodePointer& node : units_[unit].gathers) {
      node->attributes.set("unit", static_cast<int64_t>(unit));
      node->attributes.set("late", static_cast<int64_t>(unit == 0 ? 0 : unit - 1));
      put(node);
    }
  }

  // Those that need no other of the group first, and so on.
  void put_sums() {
    std::stable_sort(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (i == 0 || pending_[i].first != pending_[i - 1].first) ++next_number_;
      pending_[i].second->attributes.set("unit", next_number_);
      put(pending_[i].second);
    }
    ++next_number_;
    pending_.clear();
    ++group_;
  }

  std::vector<NodePointer> nodes_;
  std::vector<Unit> units_;
  std::unordered_map<const Node*, size_t> first_of_unit_;
  std::unordered_set<const Node*> in_unit_;
  std::unordered_map<const Node*, int64_t> sums_behind_;
  std::vector<std::pair<int64_t, NodePointer>> pending_;  // sums of the group `group_`, by level
  int64_t pending_unit_ = -1, group_ = 0, next_number_ = 0, next_order_ = 0;
};

}  // namespace

std::string_view layer_of_scope(std::string_view scope) {
  for (size_t begin = 0; begin < scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    if (end > begin && std::all_of(scope.begin() + static_cast<long>(begin), scope.begin() + static_cast<long>(end),
                                   [](char c) { return c >= '0' && c <= '9'; }))
      return scope.substr(0, end);
    begin = end + 1;
  }
  return {};
}

int64_t CollectiveUnits::next(std::string_view scope, int64_t bytes) {
  const std::string_view layer = layer_of_scope(scope);
  if (current_ < 0 || layer != layer_ || (layer.empty() && bytes_ >= kUnitBytes)) {
    ++current_;
    layer_ = layer;
    bytes_ = 0;
  }
  bytes_ += bytes;
  return current_;
}

void order_collectives(const std::vector<Tensor>& outputs) { Orderer(outputs).order(); }

}  // namespace transom
