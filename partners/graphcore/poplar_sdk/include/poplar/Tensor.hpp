// SPDX-License-Identifier: Apache-2.0
// Tensors are views of the elements of variables: slices, permutations and broadcasts cost nothing until they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "poplar/Interval.hpp"
#include "poplar/Type.hpp"

namespace ipu_emulator {

struct GraphState;

// One element of a variable.
struct Place {
  uint32_t variable;
  uint64_t element;
};

// Which elements a tensor shows: those of one variable, or of a list of places, by strides.
struct View {
  std::weak_ptr<GraphState> graph;
  poplar::Type type;
  std::vector<size_t> shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  uint32_t variable = 0;
  std::shared_ptr<const std::vector<Place>> places;  // null: of `variable`

  size_t elements() const;
  bool contiguous() const;  // of one variable, in order and without gaps
};

// Axes of a view without those of extent 1, neighbours joined where one stride says both.
struct JoinedAxes {
  std::vector<size_t> extents;
  std::vector<int64_t> strides;
};
JoinedAxes joined_axes(const View& view);

}  // namespace ipu_emulator

namespace poplar {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(ipu_emulator::View view) : view_(std::make_shared<ipu_emulator::View>(std::move(view))) {}

  bool valid() const { return view_ != nullptr; }
  Type elementType() const { return view_->type; }
  const std::vector<size_t>& shape() const { return view_->shape; }
  unsigned rank() const { return static_cast<unsigned>(view_->shape.size()); }
  size_t dim(unsigned i) const { return view_->shape.at(i); }
  size_t numElements() const { return view_->elements(); }
  bool isContiguous() const { return view_->contiguous(); }

  // Each refuses what lies outside of the tensor with tensor_error.
  Tensor operator[](size_t i) const;
  Tensor slice(size_t begin, size_t end, unsigned dimension = 0) const;
  Tensor slice(const Interval& region, unsigned dimension = 0) const {
    return slice(region.begin(), region.end(), dimension);
  }
  Tensor slice(const std::vector<size_t>& begin, const std::vector<size_t>& end) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor dimShuffle(const std::vector<unsigned>& permutation) const;
  Tensor dimRoll(unsigned dimension, unsigned to = 0) const;
  Tensor reshape(const std::vector<size_t>& shape) const;
  Tensor flatten() const { return reshape({numElements()}); }
  Tensor flatten(unsigned begin, unsigned end) const;
  Tensor expand(const std::vector<size_t>& before) const;  // an extent of 1 before each of these dimensions
  Tensor squeeze(const std::vector<size_t>& dimensions) const;
  Tensor broadcast(unsigned times, unsigned dimension) const;
  Tensor reverse(unsigned dimension) const;
  Tensor transpose() const;  // the last two dimensions
  std::string shapeToString() const;

  const ipu_emulator::View& view() const { return *view_; }

 private:
  std::shared_ptr<const ipu_emulator::View> view_;
};

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension = 0);
Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension = 0);

}  // namespace poplar
