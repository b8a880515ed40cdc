// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transom/dtype.h"

namespace transom {

using Shape = std::vector<int64_t>;

int64_t elements(const Shape& shape);       // the product of the extents
std::string to_string(const Shape& shape);  // "[2, 3]"

// Element type and shape of a tensor.
struct Type {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);                // "f32[2, 3]"
std::string to_string(const std::vector<Type>& types);  // "f32[2, 3], i64[2]"

struct Node;

// The types of C++ that values of tensors are read and written as. Elements of bool are read and written as uint8_t,
// those of f16 and bf16 read as float.
template <typename T>
concept Element = std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, int32_t> ||
    std::same_as<T, int64_t> || std::same_as<T, uint32_t> || std::same_as<T, float> || std::same_as<T, double>;

// A value: a cheap handle to one output of a graph node, computed or not yet computed. Tensors are dense and row-major
// and never change; an update is a new tensor, whose memory the compiler may take from the old one once that has no
// other references. Reading a value (item, to_vector) computes what it needs.
// Threads may share tensors, computed or not: a second thread that needs one that is being computed waits for it. A
// handle that is assigned to, and set_requires_grad(), belong to one thread at a time.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Node> node, int output) : node_(std::move(node)), output_(output) {}

  // A tensor with the given contents on the default device. An input of the graph: its values never reach compiled
  // code.
  template <Element T>
  static Tensor from(std::span<const T> values, Shape shape);
  template <Element T>
  static Tensor from(const std::vector<T>& values, Shape shape) {
    return from(std::span<const T>(values), std::move(shape));
  }
  static Tensor from_bytes(std::span<const std::byte> bytes, Type type);
  // Uses `bytes` in place where the device can read host memory; `owner` keeps them alive. They must never change.
  static Tensor from_frozen(std::span<const std::byte> bytes, Type type, std::shared_ptr<const void> owner);
  // A scalar input, for what changes from step to step (a learning rate, a position).
  static Tensor scalar(double value, DType dtype = DType::kFloat32);

  bool defined() const { return node_ != nullptr; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t dim(int64_t axis) const;  // axis -1 is the last one
  int64_t size() const { return elements(shape()); }

  // Read the values, in row-major order, converted to T if need be. item() wants exactly one element.
  template <Element T>
  std::vector<T> to_vector() const;
  template <Element T>
  T item() const;
  std::vector<std::byte> to_bytes() const;

  // Row `index` of axis 0, without that axis; -1 is the last one.
  Tensor operator[](int64_t index) const;

  // The same values on another device, "cpu" or "cuda:1"; on the device where they are, the tensor itself. Computes
  // what it needs, and goes through the host's memory. No gradient flows between devices: while gradients are recorded,
  // a tensor that requires one is refused until it is detached.
  Tensor to(const std::string& device) const;
  // The name of the device where the values are, or will be computed.
  std::string device() const;

  // The same value, through which no gradient flows.
  Tensor detach() const;
  // Marks this tensor as one whose gradient may be asked for: results computed from it keep their graph.
  Tensor& set_requires_grad(bool requires_grad = true);
  bool requires_grad() const;

  const std::shared_ptr<Node>& node() const { return node_; }
  int output() const { return output_; }
  bool same_as(const Tensor& other) const { return node_ == other.node_ && output_ == other.output_; }

 private:
  std::shared_ptr<Node> node_;
  int output_ = 0;
};

// Values and type, as NumPy prints them: "[[1, 2],\n [3, 4]] f32[2, 2]". Of tensors with more than 1,000 elements each
// axis shows its first and last three. Computes what it needs.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// Computes the tensors now, in one program. In lazy mode this, or reading a value, is what runs anything.
void eval(std::span<const Tensor> tensors);
inline void eval(const std::vector<Tensor>& tensors) { eval(std::span<const Tensor>(tensors)); }

// How operations are executed.
enum class Mode {
  kLazy,     // they build a graph, which is compiled and run when a value is read or eval() is called
  kEager,    // each is compiled (once) and run at once
  kCompile,  // as kLazy, but a model's forward pass is traced once for each signature and called as a program
  kGraph,    // as kCompile, with the program captured once and replayed at fixed addresses
};
// Of all threads; set it before they start.
void set_mode(Mode mode);
Mode mode();

// Names the part of the model that the operations belong to, "encoder.layer.3.attention", for errors and profiles.
class ModuleScope {
 public:
  explicit ModuleScope(const std::string& name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const std::string* before_;
};

// While an instance exists, results computed on its thread keep no graph for gradients, as with torch.no_grad.
class NoGradient {
 public:
  NoGradient();
  ~NoGradient();
  NoGradient(const NoGradient&) = delete;
  NoGradient& operator=(const NoGradient&) = delete;

 private:
  bool before_;
};
bool gradients_enabled();  // whether this thread has no NoGradient

}  // namespace transom
