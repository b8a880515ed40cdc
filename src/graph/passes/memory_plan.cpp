// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "graph/ops/records.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned_bytes_of(const Type& type) { return (bytes_of(type) + kAlignment - 1) / kAlignment * kAlignment; }

// One stretch of memory and the places in node order at which it must exist.
struct Block {
  int64_t bytes;
  int first, last;
  int64_t offset = 0;
};

// What is written into a large tensor leaves the rest of it where it is: the KV cache of a step of generation.
bool updates_a_part(const Node& node) { return node.operation->in_place >= 0; }

bool runs_in_place(const Node& node) {
  return node.operation->elementwise || is_op(node, op::fusion) || is_op(node, op::row_fusion) || updates_a_part(node);
}

// Products that devices make in chunks, for who reads the result to go on with while they are in the caches. Of bytes
// alone: their inputs take little room.
bool comes_in_chunks(const Node& node) {
  return is_op(node, op::integer_linear) || is_op(node, op::integer_convolution) ||
         is_op(node, op::channels_last_integer_convolution);
}

bool reads_same_place(const Node& node, size_t i, int o);

// Whether a node of a row_fusion reads input `i` row by row, as it walks.
bool reads_row_by_row(const Node& node, size_t i) {
  if (node.operation->view) return false;  // the value lives on under another name
  if (node.operation->elementwise) return true;
  if (!node.region) return node.inputs[i].shape() == node.inputs[0].shape() && node.inputs[i].rank() >= 2;
  return std::all_of(node.region->nodes.begin(), node.region->nodes.end(), [&](const auto& inner) {
    return inner->operation->elementwise ||
           std::none_of(inner->inputs.begin(), inner->inputs.end(),
                        [&](const Tensor& input) { return input.same_as(node.region->inputs[i]); });
  });
}

// The nodes of a row_fusion run one after the other for some rows: whether all that read input `i` stand before the
// maker of output `o`, or are this maker, and only its own places.
bool has_read_rows(const Node& node, size_t i, int o) {
  const Tensor& output = node.region->outputs[static_cast<size_t>(o)];
  if (output.shape() != node.inputs[i].shape()) return false;
  bool made = false;
  for (const std::shared_ptr<Node>& inner : node.region->nodes) {
    const bool maker = output.node() == inner;
    for (size_t k = 0; k < inner->inputs.size(); ++k) {
      if (!inner->inputs[k].same_as(node.region->inputs[i])) continue;
      if (made || !reads_row_by_row(*inner, k)) return false;
      const bool alone = inner->operation->elementwise || is_op(*inner, op::fusion);
      if (maker && !(alone && reads_same_place(*inner, k, output.output()))) return false;
    }
    if (maker && inner->operation->view) return false;
    made |= maker;
  }
  return made;
}

// Whether output `o` of the node reads input `i` only at its own places.
bool reads_same_place(const Node& node, size_t i, int o) {
  if (updates_a_part(node)) return static_cast<int>(i) == node.operation->in_place && o == 0;
  if (node.inputs[i].type() != node.types[static_cast<size_t>(o)] &&
      (node.inputs[i].shape() != node.types[static_cast<size_t>(o)].shape ||
       size_of(node.inputs[i].dtype()) != size_of(node.types[static_cast<size_t>(o)].dtype)))
    return false;
  if (!node.region) return true;
  if (is_op(node, op::row_fusion)) return has_read_rows(node, i, o);
  // Inside a region an input may also be read by a reshape or broadcast.
  for (const std::shared_ptr<Node>& inner : node.region->nodes)
    if (!inner->operation->elementwise)
      for (const Tensor& input : inner->inputs)
        if (input.same_as(node.region->inputs[i])) return false;
  return true;
}

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<bool>& donated, const std::vector<bool>& restorable,
          size_t first_update)
      : graph_(graph), donated_(donated), restorable_(restorable), first_update_(static_cast<int>(first_update)) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      for (const Tensor& input : graph.nodes[n]->inputs) last_use_[input] = static_cast<int>(n);
    for (const Tensor& output : graph.outputs) is_output_.insert(output);
    for (const Tensor& input : graph.inputs) is_input_.insert(input);
    keep_for_fusions();
  }

  MemoryPlan plan() {
    place_all();
    MemoryPlan plan;
    plan.donor = donors();
    assign_offsets(plan);
    for (const auto& [tensor, block] : block_of_) plan.offsets.emplace(tensor, blocks_[block].offset);
    return plan;
  }

  int64_t live_bytes() {
    place_all();
    return live_maximum();
  }

 private:
  // A fusion that alone reads a result made in chunks may be computed on each of them, so that what it writes must not
  // lie where the maker still reads.
  void keep_for_fusions() {
    TensorMap<int> readers;
    for (const std::shared_ptr<Node>& node : graph_.nodes)
      for (const Tensor& input : node->inputs) ++readers[input];
    const auto end = static_cast<int>(graph_.nodes.size()) - 1;
    for (int n = 0; n <= end; ++n) {
      const Node& fusion = *graph_.nodes[static_cast<size_t>(n)];
      if (!fusion.operation->elementwise && !is_op(fusion, op::fusion)) continue;
      for (const Tensor& made : fusion.inputs) {
        if (!comes_in_chunks(*made.node()) || readers[made] != 1 || is_output_.contains(made)) continue;
        for (const Tensor& read : made.node()->inputs) {
          if (is_input_.contains(read)) continue;
          // One place further where the fusion reads it too, and could take its place.
          const bool both = std::any_of(fusion.inputs.begin(), fusion.inputs.end(),
                                        [&](const Tensor& input) { return input.same_as(read); });
          last_use_[read] = std::max(last_use_[read], both ? std::min(n + 1, end) : n);
        }
      }
    }
  }

  void place_all() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      place_outputs(*graph_.nodes[n], graph_.nodes[n], static_cast<int>(n));
  }

  void place_outputs(const Node& node, const std::shared_ptr<Node>& owner, int n) {
    for (size_t o = 0; o < node.types.size(); ++o) {
      const Tensor value(owner, static_cast<int>(o));
      if (is_output_.contains(value)) continue;
      const auto use = last_use_.find(value);
      const int last = use == last_use_.end() ? n : use->second;
      const size_t taken = reusable_block(node, static_cast<int>(o), n);
      if (taken != SIZE_MAX) {
        blocks_[taken].last = std::max(blocks_[taken].last, last);
        block_of_.emplace(value, taken);
      } else {
        block_of_.emplace(value, blocks_.size());
        blocks_.push_back({aligned_bytes_of(value.type()), n, last});
      }
    }
  }

  // The block of an input that ends here and whose place this output may take.
  size_t reusable_block(const Node& node, int o, int n) const {
    const bool view = node.operation->view;
    if (!view && !runs_in_place(node)) return SIZE_MAX;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = block_of_.find(node.inputs[i]);
      if (found == block_of_.end()) continue;
      const Block& block = blocks_[found->second];
      if (view) return found->second;
      if (block.last == n && aligned_bytes_of(node.types[static_cast<size_t>(o)]) == block.bytes &&
          reads_block_in_place(node, found->second, o) && !taken_at(found->second, n))
        return found->second;
    }
    return SIZE_MAX;
  }

  // Of all inputs that lie on the block; a reshape lies where its input does.
  bool reads_block_in_place(const Node& node, size_t block, int o) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = block_of_.find(node.inputs[i]);
      if (found != block_of_.end() && found->second == block && !reads_same_place(node, i, o)) return false;
    }
    return true;
  }

  // Whether another output of the node at `n` sits on this block already.
  bool taken_at(size_t block, int n) const {
    for (size_t o = 0; o < graph_.nodes[static_cast<size_t>(n)]->types.size(); ++o) {
      const auto found = block_of_.find(Tensor(graph_.nodes[static_cast<size_t>(n)], static_cast<int>(o)));
      if (found != block_of_.end() && found->second == block) return true;
    }
    return false;
  }

  // An output may take the memory of a donated input of its type whose last reader is the maker of the output (if that
  // reads it place by place) or stands before it.
  std::vector<int> donors() const {
    std::vector<int> donor(graph_.outputs.size(), -1);
    std::unordered_map<const Node*, int> position;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) position[graph_.nodes[n].get()] = static_cast<int>(n);
    std::multimap<int64_t, int> free_inputs;  // by bytes
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (donated_[i] && !is_output_.contains(graph_.inputs[i]))
        free_inputs.emplace(aligned_bytes_of(graph_.inputs[i].type()), static_cast<int>(i));
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const Tensor& output = graph_.outputs[o];
      const auto made = position.find(output.node().get());
      if (made == position.end()) continue;
      const Node& maker = *output.node();
      const auto fits = [&](int i) {
        const Tensor& input = graph_.inputs[static_cast<size_t>(i)];
        if (input.type() != output.type()) return false;
        const bool restorable = !restorable_.empty() && restorable_[static_cast<size_t>(i)];
        if (restorable && made->second < first_update_) return false;
        const auto use = last_use_.find(input);
        if (use == last_use_.end() || use->second < made->second) return true;
        if (use->second > made->second || !runs_in_place(maker)) return false;
        for (size_t k = 0; k < maker.inputs.size(); ++k)
          if (maker.inputs[k].same_as(input) && !reads_same_place(maker, k, output.output())) return false;
        return true;
      };
      // First the inputs that the maker itself reads, so that a parameter's new value takes the old one's place.
      const auto [begin, end] = free_inputs.equal_range(aligned_bytes_of(output.type()));
      auto chosen = end;
      for (auto candidate = begin; candidate != end; ++candidate) {
        if (!fits(candidate->second)) continue;
        const Tensor& input = graph_.inputs[static_cast<size_t>(candidate->second)];
        const bool read =
            std::any_of(maker.inputs.begin(), maker.inputs.end(), [&](const Tensor& x) { return x.same_as(input); });
        if (chosen == end || read) chosen = candidate;
        if (read) break;
      }
      if (chosen == end) continue;
      donor[o] = chosen->second;
      free_inputs.erase(chosen);
    }
    return donor;
  }

  // Each at the lowest place that is free during its whole life. Which order is best depends on the graph: the largest
  // first, those that take most over time first, and as they come; the first order that wastes nothing ends the search.
  void assign_offsets(MemoryPlan& plan) {
    plan.live_maximum = live_maximum();
    const auto length = [](const Block& block) { return static_cast<double>(block.last - block.first + 1); };
    const std::function<bool(const Block&, const Block&)> orders[] = {
        [](const Block& a, const Block& b) { return a.bytes > b.bytes; },
        [&](const Block& a, const Block& b) {
          return static_cast<double>(a.bytes) * length(a) > static_cast<double>(b.bytes) * length(b);
        },
        [](const Block& a, const Block& b) {
          return a.last - a.first != b.last - b.first ? a.last - a.first > b.last - b.first : a.bytes > b.bytes;
        },
        [](const Block& a, const Block& b) { return a.first != b.first ? a.first < b.first : a.bytes > b.bytes; }};
    std::vector<Block> best;
    for (const auto& before : orders) {
      const int64_t arena = place_blocks(before);
      if (best.empty() || arena < plan.arena_bytes) {
        best = blocks_;
        plan.arena_bytes = arena;
      }
      if (plan.arena_bytes <= plan.live_maximum + plan.live_maximum / 50) break;
    }
    blocks_ = std::move(best);
  }

  // The bytes that the blocks take, placed in this order.
  int64_t place_blocks(const std::function<bool(const Block&, const Block&)>& before) {
    int64_t arena = 0;
    std::vector<size_t> order(blocks_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(blocks_[a], blocks_[b]); });
    std::vector<size_t> placed;  // by offset
    for (const size_t b : order) {
      Block& block = blocks_[b];
      int64_t offset = 0;
      for (const size_t other : placed) {
        const Block& there = blocks_[other];
        if (there.last < block.first || there.first > block.last) continue;
        if (there.offset >= offset + block.bytes) break;
        offset = std::max(offset, there.offset + there.bytes);
      }
      block.offset = offset;
      arena = std::max(arena, offset + block.bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                     [&](size_t x, size_t y) { return blocks_[x].offset < blocks_[y].offset; }),
                    b);
    }
    return arena;
  }

  int64_t live_maximum() const {
    std::vector<int64_t> change(graph_.nodes.size() + 1, 0);
    for (const Block& block : blocks_) {
      change[static_cast<size_t>(block.first)] += block.bytes;
      change[static_cast<size_t>(block.last) + 1] -= block.bytes;
    }
    int64_t live = 0, most = 0;
    for (const int64_t step : change) most = std::max(most, live += step);
    return most;
  }

  const Graph& graph_;
  const std::vector<bool>& donated_;
  const std::vector<bool> restorable_;
  const int first_update_;
  TensorMap<int> last_use_;
  TensorSet is_output_, is_input_;
  std::vector<Block> blocks_;
  TensorMap<size_t> block_of_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& donated, const std::vector<bool>& restorable,
                       size_t first_update) {
  return Planner(graph, donated, restorable, first_update).plan();
}

int64_t live_maximum(const Graph& graph) {
  const std::vector<bool> none(graph.inputs.size());
  return Planner(graph, none, {}, 0).live_bytes();
}

}  // namespace transom
