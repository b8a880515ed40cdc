// SPDX-License-Identifier: Apache-2.0
// From a graph to a recipe: checks, order of the nodes, places of the tensors.
#include <algorithm>
#include <map>
#include <set>

#include "configuration.h"
#include "recipe.h"

namespace synapse_emulator {
namespace {

bool is_persistent(const Tensor& tensor) { return tensor.section && tensor.section->persistent; }

class Compiler {
 public:
  explicit Compiler(Graph& graph) : graph_(graph) {}

  std::shared_ptr<Recipe> compile(const std::string& name) {
    rule(!graph_.nodes.empty(), synFail, "compile", "the graph has no node");
    for (const GraphNode& node : graph_.nodes) check_node(node);
    find_users();
    find_order();
    recipe_->name = name;
    place_launch_tensors();
    add_nodes();
    place_workspace();
    estimate(*recipe_);
    return recipe_;
  }

 private:
  void find_users() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const auto& tensor : graph_.nodes[i].outputs) {
        if (!tensor) continue;
        rule(producer_.emplace(tensor.get(), i).second, synFail, "compile", "tensor ", tensor->name,
             " is the output of two nodes");
        rule(!tensor->constant, synFail, "compile", "the constant ", tensor->name, " is the output of a node");
      }
      for (const auto& tensor : graph_.nodes[i].inputs)
        if (tensor) users_[tensor.get()].push_back(i);
    }
    for (const auto& [tensor, nodes] : users_) {
      rule(producer_.count(tensor) || is_persistent(*tensor) || tensor->constant || tensor->kind == SHAPE_TENSOR,
           synFail, "compile", "tensor ", tensor->name, ", an input of ", graph_.nodes[nodes[0]].guid,
           ", has no producer, no section and no data");
    }
    for (const auto& tensor : graph_.tensors) {
      rule(tensor->permutation.empty() || is_persistent(*tensor), synFail, "permutation", "tensor ", tensor->name,
           " is permuted, but not persistent");
      rule(tensor->least_sizes.rank == 0 || tensor->least_sizes == tensor->sizes, synUnsupported, "dynamic", "tensor ",
           tensor->name, " is dynamic; the emulator has static shapes only");
    }
  }

  // Node `before` runs before node `after`.
  void edge(size_t before, size_t after) {
    if (before != after && edges_[before].insert(after).second) ++waiting_for_[after];
  }

  void find_order() {
    const size_t count = graph_.nodes.size();
    edges_.resize(count);
    waiting_for_.assign(count, 0);
    std::map<uint64_t, size_t> numbers;
    for (size_t i = 0; i < count; ++i) numbers[graph_.nodes[i].id] = i;
    for (const auto& [tensor, nodes] : users_) {
      const auto producer = producer_.find(tensor);
      if (producer == producer_.end()) continue;
      for (const size_t node : nodes) {
        rule(node != producer->second, synFail, "compile", graph_.nodes[node].guid, " reads its own output ",
             tensor->name);
        edge(producer->second, node);
      }
    }
    for (size_t i = 0; i < count; ++i)
      for (const uint64_t id : graph_.nodes[i].after) edge(numbers.at(id), i);
    order_overlapping();
    std::set<size_t> ready;
    for (size_t i = 0; i < count; ++i)
      if (waiting_for_[i] == 0) ready.insert(i);
    while (!ready.empty()) {
      const size_t node = *ready.begin();
      ready.erase(ready.begin());
      order_.push_back(node);
      for (const size_t next : edges_[node])
        if (--waiting_for_[next] == 0) ready.insert(next);
    }
    rule(order_.size() == count, synFail, "compile",
         "the nodes wait for each other (a cycle, or a value is read after it was overwritten in its section)");
  }

  // Tensors that share bytes of a section: whoever reads the old value runs before the node that writes the new one.
  void order_overlapping() {
    std::map<const Section*, std::vector<const Tensor*>> shared;
    for (const auto& tensor : graph_.tensors)
      if (tensor->section && (producer_.count(tensor.get()) || users_.count(tensor.get())))
        shared[tensor->section.get()].push_back(tensor.get());
    for (const auto& [section, tensors] : shared) {
      for (const Tensor* first : tensors) {
        for (const Tensor* second : tensors) {
          if (first == second || first->offset >= second->offset + second->bytes() ||
              second->offset >= first->offset + first->bytes())
            continue;
          const auto writer = producer_.find(second);
          if (writer == producer_.end()) continue;
          const auto earlier = producer_.find(first);
          if (earlier != producer_.end()) {
            if (earlier->second > writer->second) continue;
            edge(earlier->second, writer->second);
          }
          for (const size_t reader : users_[first]) edge(reader, writer->second);
        }
      }
    }
  }

  int32_t add(const Tensor& tensor, Home home) {
    RecipeTensor entry;
    entry.name = tensor.name;
    entry.kind = tensor.kind;
    entry.type = tensor.type;
    entry.sizes = tensor.sizes;
    entry.home = home;
    entry.offset = tensor.offset;
    entry.is_input = !producer_.count(&tensor);
    entry.external = tensor.external;
    entry.permutation = tensor.permutation;
    if (home == Home::kConstant) entry.constant = tensor.constant;
    recipe_->tensors.push_back(std::move(entry));
    return indices_[&tensor] = static_cast<int32_t>(recipe_->tensors.size() - 1);
  }

  void place_launch_tensors() {
    std::map<const Section*, uint32_t> sections;
    for (const auto& tensor : graph_.tensors) {
      if (!is_persistent(*tensor) || !(producer_.count(tensor.get()) || users_.count(tensor.get()))) continue;
      const auto [place, fresh] = sections.emplace(tensor->section.get(), static_cast<uint32_t>(sections.size()));
      if (fresh) {
        recipe_->sections.emplace_back();
        recipe_->sections.back().constant = tensor->section->constant;
      }
      add(*tensor, Home::kLaunch);
      recipe_->tensors.back().section = place->second;
      if (tensor->section->constant) {
        rule(tensor->constant != nullptr, synFailedSectionValidation, "section", "tensor ", tensor->name,
             " lies in a constant section, but has no data");
        std::vector<char>& data = recipe_->sections[place->second].data;
        data.resize(std::max<size_t>(data.size(), tensor->offset + tensor->bytes()));
        std::copy(tensor->constant->begin(), tensor->constant->end(),
                  data.begin() + static_cast<int64_t>(tensor->offset));
      }
    }
    recipe_->launch_tensors = static_cast<uint32_t>(recipe_->tensors.size());
  }

  void add_nodes() {
    for (const size_t number : order_) {
      const GraphNode& node = graph_.nodes[number];
      RecipeNode entry;
      entry.guid = node.guid;
      entry.name = node.name;
      entry.kernel = node.kernel;
      entry.view = view_of(node);
      const auto indices = [&](const std::vector<std::shared_ptr<Tensor>>& tensors) {
        std::vector<int32_t> result;
        for (const auto& tensor : tensors) {
          if (!tensor) {
            result.push_back(-1);
          } else if (const auto found = indices_.find(tensor.get()); found != indices_.end()) {
            result.push_back(found->second);
          } else {
            result.push_back(add(*tensor, tensor->constant ? Home::kConstant : Home::kWorkspace));
            if (tensor->section) in_section_[tensor->section.get()].push_back(result.back());
          }
        }
        return result;
      };
      entry.in = indices(node.inputs);
      entry.out = indices(node.outputs);
      const bool convolves = node.guid == "spatial_convolution";
      if (configuration().permute && convolves && node.outputs[0]->may_permute && node.outputs[0]->sizes.rank == 4)
        recipe_->tensors[static_cast<size_t>(entry.out[0])].permutation = {2, 0, 1, 3};
      recipe_->nodes.push_back(std::move(entry));
    }
  }

  // Places intermediates in the workspace; those that are not needed at the same time share bytes.
  void place_workspace() {
    const size_t count = recipe_->tensors.size();
    const uint64_t alignment = configuration().generation.alignment;
    std::vector<size_t> first(count, SIZE_MAX), last(count, 0);
    for (size_t node = 0; node < recipe_->nodes.size(); ++node) {
      for (const auto* list : {&recipe_->nodes[node].in, &recipe_->nodes[node].out}) {
        for (const int32_t tensor : *list) {
          if (tensor < 0) continue;
          first[static_cast<size_t>(tensor)] = std::min(first[static_cast<size_t>(tensor)], node);
          last[static_cast<size_t>(tensor)] = std::max(last[static_cast<size_t>(tensor)], node);
        }
      }
    }
    struct Piece {
      uint64_t begin, end;
      size_t first, last;
    };
    std::vector<Piece> pieces;
    const auto place = [&](uint64_t bytes, size_t from, size_t to) {
      std::vector<Piece> alive;
      for (const Piece& piece : pieces)
        if (piece.first <= to && from <= piece.last) alive.push_back(piece);
      std::sort(alive.begin(), alive.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      uint64_t begin = 0;
      for (const Piece& piece : alive) {
        if (piece.begin >= begin + bytes) break;
        begin = std::max(begin, (piece.end + alignment - 1) / alignment * alignment);
      }
      pieces.push_back({begin, begin + bytes, from, to});
      recipe_->workspace = std::max(recipe_->workspace, (begin + bytes + alignment - 1) / alignment * alignment);
      return begin;
    };
    std::set<int32_t> placed;
    for (const auto& [section, tensors] : in_section_) {  // for the whole run
      uint64_t bytes = 0;
      for (const int32_t tensor : tensors) {
        const RecipeTensor& entry = recipe_->tensors[static_cast<size_t>(tensor)];
        bytes = std::max(bytes, entry.offset + entry.bytes());
      }
      const uint64_t begin = place(bytes, 0, recipe_->nodes.size());
      for (const int32_t tensor : tensors) {
        recipe_->tensors[static_cast<size_t>(tensor)].offset += begin;
        placed.insert(tensor);
      }
    }
    for (size_t tensor = 0; tensor < count; ++tensor) {
      RecipeTensor& entry = recipe_->tensors[tensor];
      if (entry.home == Home::kWorkspace && entry.kind == DATA_TENSOR && !placed.count(static_cast<int32_t>(tensor)))
        entry.offset = place(entry.bytes(), first[tensor], last[tensor]);
    }
  }

  Graph& graph_;
  std::shared_ptr<Recipe> recipe_ = std::make_shared<Recipe>();
  std::map<const Tensor*, size_t> producer_;
  std::map<const Tensor*, std::vector<size_t>> users_;
  std::vector<std::set<size_t>> edges_;
  std::vector<size_t> waiting_for_, order_;
  std::map<const Tensor*, int32_t> indices_;
  std::map<const Section*, std::vector<int32_t>> in_section_;
};

}  // namespace

std::shared_ptr<Recipe> compile(Graph& graph, const std::string& name) {
  std::shared_ptr<Recipe> recipe = Compiler(graph).compile(name);
  graph.compiled = true;
  return recipe;
}

namespace {

// Whether a node reads of its first input only what it writes.
bool reads_a_part(const std::string& guid) {
  for (const char* name : {"slice", "strided_view", "gather_fwd", "gather_elements_fwd"})
    if (guid == name || guid == name + std::string("_axis") || guid.rfind(name + std::string("_"), 0) == 0)
      return guid.rfind("slice_insert", 0) != 0;
  return false;
}

}  // namespace

void estimate(Recipe& recipe) {
  const Generation& generation = configuration().generation;
  std::vector<double> ready(recipe.tensors.size(), 0);
  double free_at[kEngines] = {};
  recipe.cost = {};
  for (const RecipeNode& node : recipe.nodes) {
    double bytes = 0, start = 0, written = 0;
    for (const int32_t tensor : node.out)
      if (tensor >= 0) written += static_cast<double>(recipe.tensors[static_cast<size_t>(tensor)].bytes());
    const bool part = reads_a_part(node.guid);
    for (const int32_t tensor : node.in) {
      if (tensor < 0) continue;
      const auto all = static_cast<double>(recipe.tensors[static_cast<size_t>(tensor)].bytes());
      bytes += part && tensor == node.in[0] ? std::min(all, written) : all;
      start = std::max(start, ready[static_cast<size_t>(tensor)]);
    }
    bytes += written;
    double elements = 0;
    for (const int32_t tensor : node.out) {
      if (tensor < 0) continue;
      elements += static_cast<double>(recipe.tensors[static_cast<size_t>(tensor)].sizes.elements());
    }
    const double flops = node.kernel->flops ? node.kernel->flops(node.view) : elements;
    const synDataType type = node.view.has_input(0) ? node.view.input(0).type : node.view.output(0).type;
    double peak = generation.tpc_bf16_flops / (size_of(type) > 2 ? 2 : 1);
    if (node.kernel->engine == Engine::kMme)
      peak = type == syn_type_single ? generation.mme_f32_flops
             : size_of(type) == 1    ? generation.mme_fp8_flops
                                     : generation.mme_bf16_flops;
    const double seconds = std::max(flops / peak, bytes / generation.memory_bandwidth);
    const int engine = static_cast<int>(node.kernel->engine);
    start = std::max(start, free_at[engine]);
    free_at[engine] = start + seconds;
    recipe.cost.seconds[engine] += seconds;
    recipe.cost.span = std::max(recipe.cost.span, start + seconds);
    for (const int32_t tensor : node.out)
      if (tensor >= 0) ready[static_cast<size_t>(tensor)] = start + seconds;
  }
}

}  // namespace synapse_emulator
