// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/node.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_set>

#include "base/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/region_scope.h"

namespace transom {
namespace {

std::atomic<uint64_t> next_sequence{1};
std::atomic<NodeObserver> node_observer{nullptr};
thread_local bool in_compiler = false;
thread_local bool in_region = false;  // of a RegionScope
thread_local bool gradients_off = false;
thread_local const std::string* scope = nullptr;

const Operation& input_operation() {
  static const Operation& operation = find_operation("input");
  return operation;
}

}  // namespace

int64_t elements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) fail("the shape {} has too many elements", to_string(shape));
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }
std::string to_string(const std::vector<Type>& types) {
  std::string text;
  for (const Type& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}
std::string to_string(const Type& type) { return std::string(name_of(type.dtype)) + to_string(type.shape); }

// ---- Tensor: what needs no device

const Type& Tensor::type() const {
  if (!node_) fail("an empty Tensor has no shape: it was declared but never given a value");
  return node_->types[static_cast<size_t>(output_)];
}

int64_t Tensor::dim(int64_t axis) const {
  const int64_t place = axis < 0 ? axis + rank() : axis;
  if (place < 0 || place >= rank()) fail("axis {} does not fit the shape {}", axis, to_string(shape()));
  return shape()[static_cast<size_t>(place)];
}

Tensor& Tensor::set_requires_grad(bool requires_grad) {
  type();
  node_->requires_grad = requires_grad;
  return *this;
}
bool Tensor::requires_grad() const { return node_ && node_->requires_grad; }

// ---- nodes

namespace {

// What no tensor may be, whatever rule or text says so: half of the address space is far more than any memory.
void check_type(const Operation& operation, const Type& type) {
  const bool sound = std::all_of(type.shape.begin(), type.shape.end(), [](int64_t extent) { return extent >= 0; });
  if (!sound || elements(type.shape) > int64_t{1} << 47)
    fail("{}{}: no tensor can be {}", scope_prefix(), operation.name, to_string(type));
}

void check_region(const Operation& operation, const std::vector<Type>& types, const Graph& region) {
  if (operation.evaluate || operation.decompose) fail(ErrorKind::kInternal, "{} takes no region", operation.name);
  std::vector<Type> expected;
  for (const Tensor& input : region.inputs) expected.push_back(input.type());
  if (types != expected)
    fail(ErrorKind::kInternal, "{}: the region's inputs are ({}), found ({})", operation.name, to_string(expected),
         to_string(types));
}

}  // namespace

// A chain of nodes may be as long as a training run's graph: release it in a loop, not by recursion. What a destructor
// that is called inside of another releases, the outer one releases for it. Nothing here looks at another node, which
// may be another thread's.
Node::~Node() {
  thread_local std::vector<Tensor>* pending = nullptr;
  if (inputs.empty()) return;
  if (pending) {
    pending->insert(pending->end(), std::make_move_iterator(inputs.begin()), std::make_move_iterator(inputs.end()));
    return;
  }
  std::vector<Tensor> mine = std::move(inputs);
  pending = &mine;
  while (!mine.empty()) {
    const Tensor last = std::move(mine.back());
    mine.pop_back();
  }
  pending = nullptr;
}

void Storages::give(size_t output, size_t count, std::shared_ptr<Storage> storage) {
  Place* places = places_.load(std::memory_order_relaxed);
  if (!places) {
    places = new Place[count];
    places_.store(places, std::memory_order_release);
  }
  places[output].storage = std::move(storage);
  places[output].given.store(true, std::memory_order_release);
}

const std::shared_ptr<Storage>& Node::storage(int output) const {
  const std::shared_ptr<Storage>* found = storages_.find(static_cast<size_t>(output));
  if (!found) fail(ErrorKind::kInternal, "output {} of {} is not computed yet", output, operation->name);
  return *found;
}

void Node::give_storage(int output, std::shared_ptr<Storage> storage) const {
  if (!computed(output)) storages_.give(static_cast<size_t>(output), types.size(), std::move(storage));
}

std::shared_ptr<Node> make_node(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes,
                                std::shared_ptr<const Graph> region) {
  std::vector<Type> types;
  types.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    if (!input.defined()) fail("{}{}: an input is an empty Tensor", scope_prefix(), operation.name);
    types.push_back(input.type());
  }
  auto node = std::make_shared<Node>();
  node->operation = &operation;
  node->region = std::move(region);
  if (node->region) {
    check_region(operation, types, *node->region);
    for (const Tensor& output : node->region->outputs) node->types.push_back(output.type());
  } else {
    node->types = operation.infer({operation, types, attributes});
    for (const Type& type : node->types) check_type(operation, type);
  }
  node->attributes = std::move(attributes);
  node->scope = current_scope();
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  const bool carries_gradient =
      std::any_of(node->types.begin(), node->types.end(), [](const Type& type) { return is_floating(type.dtype); });
  if ((!in_compiler || in_region) && !gradients_off && carries_gradient && !operation.stops_gradient)
    for (const Tensor& input : inputs) node->requires_grad |= input.requires_grad();
  node->saves_for_backward = node->requires_grad && !in_compiler;
  node->without_gradients = in_compiler || gradients_off;
  node->inputs = std::move(inputs);
  if (!in_compiler)
    if (const NodeObserver observer = node_observer.load(std::memory_order_relaxed)) observer(node);
  return node;
}

Tensor make_tensor(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes) {
  return {make_node(operation, std::move(inputs), std::move(attributes)), 0};
}

std::vector<Tensor> make_tensors(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes) {
  return outputs_of(make_node(operation, std::move(inputs), std::move(attributes)));
}

std::vector<Tensor> outputs_of(const std::shared_ptr<Node>& node) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < node->types.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

Tensor make_input(Type type, std::shared_ptr<Storage> storage) {
  check_type(input_operation(), type);
  auto node = std::make_shared<Node>();
  node->operation = &input_operation();
  node->types = {std::move(type)};
  node->scope = current_scope();
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  if (storage) node->give_storage(0, std::move(storage));
  return {std::move(node), 0};
}

bool is_input(const Node& node) { return node.operation == &input_operation(); }

void set_node_observer(NodeObserver observer) { node_observer.store(observer); }

CompilerScope::CompilerScope() : before_(in_compiler) { in_compiler = true; }
CompilerScope::~CompilerScope() { in_compiler = before_; }

RegionScope::RegionScope() : compiler_before_(in_compiler), region_before_(in_region) {
  in_compiler = in_region = true;
}
RegionScope::~RegionScope() {
  in_compiler = compiler_before_;
  in_region = region_before_;
}

NoGradient::NoGradient() : before_(gradients_off) { gradients_off = true; }
NoGradient::~NoGradient() { gradients_off = before_; }
bool gradients_enabled() { return !gradients_off; }
EnableGrad::EnableGrad() : before_(gradients_off) { gradients_off = false; }
EnableGrad::~EnableGrad() { gradients_off = before_; }

// ---- scopes

const std::string* intern_scope(const std::string& path) {
  static std::mutex mutex;
  static std::unordered_set<std::string> paths;  // elements of a set never move
  std::lock_guard lock(mutex);
  return &*paths.insert(path).first;
}

const std::string* current_scope() {
  static const std::string* const root = intern_scope("");
  return scope ? scope : root;
}

std::string scope_prefix() {
  const std::string& path = *current_scope();
  return path.empty() ? "" : path + ": ";
}

UseScope::UseScope(const std::string* path) : before_(scope) { scope = path; }
UseScope::~UseScope() { scope = before_; }

// A name that is a whole path already, of a module within the current one, is not put behind it again.
ModuleScope::ModuleScope(const std::string& name) : before_(scope) {
  const std::string& outer = *current_scope();
  const bool whole = outer.empty() || name == outer || name.starts_with(outer + ".");
  scope = intern_scope(whole ? name : outer + "." + name);
}
ModuleScope::~ModuleScope() { scope = before_; }

void fail_check(const Inference& inference, const std::string& text) {
  fail("{}{}: {}", scope_prefix(), inference.operation.name, text);
}

}  // namespace transom
