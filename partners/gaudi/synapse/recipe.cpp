// SPDX-License-Identifier: Apache-2.0
// Running a recipe.
#include "recipe.h"

#include <algorithm>
#include <map>

#include "configuration.h"

namespace synapse_emulator {
namespace {

// Copies a tensor between its order in memory and the order of its sizes. Memory has dim permutation[i] at position i.
void permute(const RecipeTensor& tensor, const char* from, char* to, bool to_memory) {
  const int64_t size = size_of(tensor.type);
  const int rank = tensor.sizes.rank;
  std::array<int64_t, kMostDims> stride{};  // in memory, of each dim
  int64_t step = 1;
  for (int i = 0; i < rank; ++i) {
    const int dim = tensor.permutation[static_cast<size_t>(i)];
    stride[static_cast<size_t>(dim)] = step;
    step *= tensor.sizes[dim];
  }
  std::array<int64_t, kMostDims> index{};
  const int64_t count = tensor.sizes.elements();
  for (int64_t element = 0; element < count; ++element) {
    int64_t place = 0;
    for (int dim = 0; dim < rank; ++dim) place += index[static_cast<size_t>(dim)] * stride[static_cast<size_t>(dim)];
    std::memcpy(to + (to_memory ? place : element) * size, from + (to_memory ? element : place) * size,
                static_cast<size_t>(size));
    for (int dim = 0; dim < rank && ++index[static_cast<size_t>(dim)] == tensor.sizes[dim]; ++dim)
      index[static_cast<size_t>(dim)] = 0;
  }
}

bool overlap(const Operand& a, const Operand& b) { return a.data < b.data + b.bytes() && b.data < a.data + a.bytes(); }

// Under the address sanitizer kernels work on copies of exactly their operands' sizes: in the workspace an access
// beside an operand would meet another tensor's bytes, and nobody would see it.
class Fences {
 public:
#ifdef __SANITIZE_ADDRESS__
  explicit Fences(Node& view) {
    for (auto* list : {&view.in, &view.out}) {
      for (Operand& operand : *list) {
        const auto bytes = static_cast<size_t>(operand.bytes());
        if (!operand.data || bytes == 0) continue;
        const auto [found, fresh] = copies_.try_emplace({operand.data, bytes});  // one for both sides of an update
        if (fresh) found->second.assign(operand.data, operand.data + bytes);
        if (list == &view.out) written_.push_back(&*found);
        operand.data = found->second.data();
      }
    }
  }
  void give_back() {
    for (const auto* copy : written_) std::memcpy(copy->first.first, copy->second.data(), copy->second.size());
  }

 private:
  using Copies = std::map<std::pair<char*, size_t>, std::vector<char>>;
  Copies copies_;
  std::vector<const Copies::value_type*> written_;
#else
  explicit Fences(Node&) {}
  void give_back() {}
#endif
};

}  // namespace

uint64_t id_of(const Recipe& recipe, uint32_t tensor) {
  return static_cast<uint64_t>(recipe.tensors[tensor].kind) << 56 | tensor;
}

void run_recipe(const Recipe& recipe, const std::vector<char*>& data) {
  if (!configuration().values) return;
  for (const RecipeNode& node : recipe.nodes) {
    Node view = node.view;
    std::vector<std::vector<char>> copies;
    const auto copy_of = [&](const Operand& operand) {
      copies.emplace_back(static_cast<size_t>(operand.bytes()));
      return copies.back().data();
    };
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i] < 0) continue;
      const auto tensor = static_cast<size_t>(node.in[i]);
      view.in[i].data = data[tensor];
      if (recipe.tensors[tensor].permutation.empty() || !data[tensor]) continue;
      char* dense = copy_of(view.in[i]);
      permute(recipe.tensors[tensor], data[tensor], dense, false);
      view.in[i].data = dense;
    }
    std::vector<std::pair<size_t, char*>> permuted;
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] < 0) continue;
      const auto tensor = static_cast<size_t>(node.out[i]);
      view.out[i].data = data[tensor];
      if (recipe.tensors[tensor].permutation.empty()) continue;
      view.out[i].data = copy_of(view.out[i]);
      permuted.emplace_back(tensor, view.out[i].data);
    }
    // In-place updates: what a kernel cannot read and write at once is read from a copy.
    for (Operand& in : view.in) {
      for (const Operand& out : view.out) {
        if (!in.present || !out.present || !in.data || !out.data || !overlap(in, out)) continue;
        if (node.kernel->in_place && in.data == out.data && in.sizes == out.sizes &&
            size_of(in.type) == size_of(out.type))
          continue;
        char* dense = copy_of(in);
        std::memcpy(dense, in.data, static_cast<size_t>(in.bytes()));
        in.data = dense;
        break;
      }
    }
    Fences fences(view);
    bool empty = true;
    for (const Operand& out : view.out) empty = empty && (!out.present || out.elements() == 0);
    if (!empty) node.kernel->run(view);
    fences.give_back();
    for (const auto& [tensor, dense] : permuted) permute(recipe.tensors[tensor], dense, data[tensor], true);
  }
}

}  // namespace synapse_emulator
