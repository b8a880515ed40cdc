// SPDX-License-Identifier: Apache-2.0
// What lowering makes of a graph: a list of launches, each a kernel text with its operands.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/api/attentions.h"
#include "gpu/api/convolutions.h"
#include "gpu/api/products.h"
#include "gpu/source/kernel_text.h"
#include "transom/plugin/node.h"

namespace transom::gpu {

using backend::Node;

// A value that a run binds, as a part of a merged launch reaches it.
struct BoundValue {
  size_t value;  // of the graph
  size_t part;
  bool written;
};

// By the vendor's library.
struct PlannedAttention {
  std::shared_ptr<const AttentionPlan> plan;
  float scale;
};

struct PlannedLaunch {
  std::string text;  // of the kernel
  uint64_t groups;
  std::vector<Operand> operands;
  std::vector<int64_t> numbers;
  size_t node;        // of the graph
  std::string label;  // for profiles and `transom explain`
  // A product of the vendor's library, without a text: its operands are x, y, out, workspace and, with an
  // epilogue, its vector.
  std::optional<ProductShape> product = std::nullopt;
  // A convolution of the vendor's library: its operands are x, w, y and the workspace.
  std::optional<ConvolutionShape> convolution = std::nullopt;
  // Attention or its gradient of the vendor's library: its operands are those of Attentions::run.
  std::optional<PlannedAttention> attention = std::nullopt;
  bool by_library() const { return product || convolution || attention; }
  // In the place of such a product, where the library does not take the addresses that a run has; in the place of a
  // merged launch, where a run binds its values so that its parts depend on each other.
  std::vector<PlannedLaunch> otherwise = {};
  // See Emitter::can_repeat.
  std::shared_ptr<const KernelText> repeatable = nullptr;
  std::vector<Operand> written = {};
  // Of a merged launch: the nodes of its further parts, and what is bound.
  std::vector<size_t> also = {};
  std::vector<BoundValue> bound = {};
};

// A fusion that reads what the node makes and comes right after it: a lowering that computes it as its results are
// made, without writing them, says so by `taken`.
struct Following {
  const transom_graph* region;
  std::vector<Operand> inputs, outputs;
  size_t replaced;  // the input that is the node's output
  bool taken = false;
};

// One node on its way to launches.
struct Work {
  const Node& node;
  std::vector<Operand> inputs, outputs;
  const transom_graph* region = nullptr;  // of "fusion" and "row_fusion"
  Following* following = nullptr;
};

class Emitter {
 public:
  // `products`, `convolutions`, `attentions`: the vendor's libraries, null where there are none.
  Emitter(const Facts& facts, Dialect dialect, Products* products, Convolutions* convolutions = nullptr,
          Attentions* attentions = nullptr)
      : facts_(facts), dialect_(dialect), products_(products), convolutions_(convolutions), attentions_(attentions) {}

  const Facts& facts() const { return facts_; }

  // Memory that belongs to the node that is being lowered.
  Operand scratch(int64_t bytes);
  void launch(const KernelText& text, int64_t groups, std::string label);
  // The last launch computes each element by itself, from values of the graph alone, and may be merged with others of
  // its text. `written`: those of its operands that it writes.
  void can_repeat(const KernelText& text, std::vector<Operand> written);
  // Whether the vendor's library computes the product; then it is added. `vector`: the epilogue's, if there is one.
  bool multiply(const ProductShape& shape, const Operand& x, const Operand& y, const Operand* vector,
                const Operand& out);

  // The same for a convolution, and for attention or its gradient: `operands` are those of Attentions::run before the
  // workspace.
  bool convolve(const ConvolutionShape& shape, const Operand& x, const Operand& w, const Operand& y);
  bool attend(const AttentionShape& shape, float scale, std::vector<Operand> operands, const Operand* bias);

  // The launches from `first` on are those in the place of the product before them.
  void make_otherwise(size_t first);

  void begin_node(size_t node) { node_ = node, scratch_ = 0; }
  std::vector<PlannedLaunch> launches;
  size_t scratch_bytes = 0;  // that the launches need

 private:
  const Facts& facts_;
  Dialect dialect_;
  Products* products_;
  Convolutions* convolutions_;
  Attentions* attentions_;
  size_t node_ = 0;
  size_t scratch_ = 0;
};

// Groups for a loop over `count` elements in which each thread takes every (groups * kGroup)-th.
int64_t groups_for(int64_t count, int64_t a_thread = 4);

// The loop itself: "for (idx <name> = ...; ...)" over [0, count).
std::string loop_over(const std::string& name, const std::string& count);

}  // namespace transom::gpu
