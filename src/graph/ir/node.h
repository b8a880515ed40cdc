// SPDX-License-Identifier: Apache-2.0
// The one kind of node that all layers work on: an operation, its inputs and attributes, the types of its outputs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "graph/ir/operation.h"

namespace transom {

struct Graph;

// Where the values of a computed tensor are; the layers below the runtime only pass it on.
struct Storage {
  virtual ~Storage() = default;
};

// The storages of a node's outputs, null at first. Each is given once, by one thread at a time; whoever finds one sees
// all that its giver wrote before, without a lock.
class Storages {
 public:
  Storages() = default;
  ~Storages() { delete[] places_.load(std::memory_order_relaxed); }
  Storages(const Storages&) = delete;
  Storages& operator=(const Storages&) = delete;

  const std::shared_ptr<Storage>* find(size_t output) const {
    const Place* places = places_.load(std::memory_order_acquire);
    return places && places[output].given.load(std::memory_order_acquire) ? &places[output].storage : nullptr;
  }
  // `count`: of all outputs, the same at each call.
  void give(size_t output, size_t count, std::shared_ptr<Storage> storage);

 private:
  struct Place {
    std::shared_ptr<Storage> storage;
    std::atomic<bool> given{false};
  };
  std::atomic<Place*> places_{nullptr};
};

struct Node {
  const Operation* operation = nullptr;
  std::vector<Tensor> inputs;
  Attributes attributes;
  std::vector<Type> types;              // of the outputs
  const std::string* scope = nullptr;   // path of the module that made it; interned
  std::shared_ptr<const Graph> region;  // of "fusion" and "checkpoint": what it computes
  uint64_t sequence = 0;                // order of creation on all threads
  bool requires_grad = false;           // gradients with respect to its outputs, or through them, may be asked for
  bool saves_for_backward = false;      // keeps its inputs once computed, so that gradients can be taken later

  // Nodes that are computed let go of their inputs, and then nobody can tell what they depend on. `released` marks such
  // a node; `released_use` is the sequence of the oldest one that was computed from this node and could carry a
  // gradient to it. Written and read under the lock of ClaimedGraph.
  mutable bool released = false;
  bool without_gradients = false;  // made where gradients are off: a constant to its inputs
  mutable uint64_t released_use = UINT64_MAX;

  ~Node();
  // An output has its storage once it is computed; an input of the graph that has one, from the start. Any thread may
  // ask.
  bool computed(int output) const { return storages_.find(static_cast<size_t>(output)) != nullptr; }
  const std::shared_ptr<Storage>& storage(int output) const;  // of a computed output
  // Computes the output, under the lock of ClaimedGraph or where no other thread knows the node.
  void give_storage(int output, std::shared_ptr<Storage> storage) const;

 private:
  mutable Storages storages_;
};

// Makes a node after checking it by its operation's shape rule. Errors carry the module's path.
std::shared_ptr<Node> make_node(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes = {},
                                std::shared_ptr<const Graph> region = nullptr);

// The single output of a new node.
Tensor make_tensor(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes = {});
std::vector<Tensor> make_tensors(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes = {});

// A leaf: an input of the graph, of the given type, with its storage if it has one.
Tensor make_input(Type type, std::shared_ptr<Storage> storage = nullptr);
bool is_input(const Node& node);

std::vector<Tensor> outputs_of(const std::shared_ptr<Node>& node);

// Called with every node that user code makes on this thread (not those that passes make); eager mode lives here.
using NodeObserver = void (*)(const std::shared_ptr<Node>&);
void set_node_observer(NodeObserver observer);

// While one lives, nodes made on this thread belong to the compiler: no observer, no gradient bookkeeping.
class CompilerScope {
 public:
  CompilerScope();
  ~CompilerScope();

 private:
  bool before_;
};

// The scope that new nodes on this thread get; interned text, never null.
const std::string* current_scope();
const std::string* intern_scope(const std::string& path);
std::string scope_prefix();  // "encoder.layer.3.attention: " or nothing: how errors begin
class UseScope {
 public:
  explicit UseScope(const std::string* scope);
  ~UseScope();

 private:
  const std::string* before_;
};

// While one lives, nodes remember again how they were computed, inside of a NoGradient too.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};

}  // namespace transom
