// SPDX-License-Identifier: Apache-2.0
// Modules and their parameters. A module is any class whose constructor takes a Scope and makes its layers from it; the
// path of the scope is the prefix of the parameters' names in the checkpoint:
//
//   struct Classifier {
//     Classifier(const Scope& scope) : hidden(scope / "hidden", 768, 768), out(scope / "out", 768, 2) {}
//     Tensor operator()(const Tensor& x, ForwardContext& pass) const { return out(tanh(hidden(x, pass)), pass); }
//     Linear hidden, out;  // hidden.weight, hidden.bias, out.weight, out.bias
//   };
//
// layers.h has the layers, parameters.h a source of parameters for modules of your own, optim.h what trains them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

// The values of a new parameter, one that no checkpoint holds.
struct Initial {
  enum class Kind { kZeros, kOnes, kNormal, kConstant, kGiven } kind = Kind::kZeros;
  double deviation = 0.02;    // standard deviation of kNormal; the value of kConstant
  int64_t zero_row = -1;      // of an embedding: the row of the padding token, which is zero
  std::vector<float> values;  // of kGiven, in row-major order
  static Initial zeros() { return {}; }
  static Initial ones() { return {Kind::kOnes, 0, -1, {}}; }
  static Initial constant(double value) { return {Kind::kConstant, value, -1, {}}; }
  static Initial given(std::vector<float> values) { return {Kind::kGiven, 0, -1, std::move(values)}; }
  static Initial normal(double deviation, int64_t zero_row = -1) { return {Kind::kNormal, deviation, zero_row, {}}; }
};

// What another name of a tensor stands for, where a checkpoint holds different values under the two.
enum class Tie {
  kShared,  // a tensor that is read in two places: they are two tensors there
  kAlone,   // only this name is read: its value counts
};

// Gives parameters their values: from a checkpoint, or new ones. For one thread at a time.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // `name` is the full name, with the path of the scope.
  virtual std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) = 0;
  // A tensor of the checkpoint that is no parameter: it is not trained, and has an element type of its own.
  virtual std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) = 0;
  // Another name of a parameter that was made before. A checkpoint may hold the tensor under either name, or both.
  virtual void tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie tie) = 0;
  // A tensor that older checkpoints hold and that follows from the configuration: no surprise there, and not read.
  virtual void derived(const std::string& name) = 0;
  // Whether a checkpoint is read and has this tensor.
  virtual bool holds(const std::string& name) const = 0;
};

// A path and the source of parameters below it. It refers to the source, which must live while modules are made.
class Scope {
 public:
  Scope(ParameterSource& source, std::string path = "") : source_(&source), path_(std::move(path)) {}
  Scope operator/(const std::string& name) const { return {*source_, path_.empty() ? name : path_ + "." + name}; }
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) const {
    return source_->parameter(path_.empty() ? name : path_ + "." + name, shape, initial);
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) const {
    return source_->buffer(path_.empty() ? name : path_ + "." + name, type, initial);
  }
  void tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie tie = Tie::kShared) const {
    source_->tied(path_.empty() ? name : path_ + "." + name, parameter, tie);
  }
  void derived(const std::string& name) const { source_->derived(path_.empty() ? name : path_ + "." + name); }
  bool holds(const std::string& name) const { return source_->holds(path_.empty() ? name : path_ + "." + name); }
  const std::string& path() const { return path_; }

 private:
  ParameterSource* source_;
  std::string path_;
};

}  // namespace transom
