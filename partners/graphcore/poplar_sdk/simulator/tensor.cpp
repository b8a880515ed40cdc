// SPDX-License-Identifier: Apache-2.0
#include "poplar/Tensor.hpp"

#include <algorithm>
#include <numeric>

#include "poplar/exceptions.hpp"
#include "simulator/model.h"

namespace ipu_emulator {

size_t View::elements() const { return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>()); }

bool View::contiguous() const {
  if (places) return false;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= static_cast<int64_t>(shape[i]))
    if (shape[i] != 1 && strides[i] != stride) return false;
  return true;
}

JoinedAxes joined_axes(const View& view) {
  JoinedAxes axes;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    const bool joins =
        !axes.strides.empty() && axes.strides.back() == view.strides[i] * static_cast<int64_t>(view.shape[i]);
    if (joins) {
      axes.extents.back() *= view.shape[i];
      axes.strides.back() = view.strides[i];
    } else {
      axes.extents.push_back(view.shape[i]);
      axes.strides.push_back(view.strides[i]);
    }
  }
  return axes;
}

}  // namespace ipu_emulator

namespace poplar {
namespace {

using ipu_emulator::Place;
using ipu_emulator::View;

std::string text_of(const std::vector<size_t>& shape) {
  std::string text = "{";
  for (const size_t extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "}";
}

// Strides of the same elements in another shape; empty where no strides say it.
std::vector<int64_t> strides_in(const View& view, const std::vector<size_t>& shape) {
  const auto [extents, steps] = ipu_emulator::joined_axes(view);
  std::vector<int64_t> strides(shape.size(), 0);
  size_t axis = extents.size();
  size_t left = 1;  // of the joined axis that is being split
  int64_t step = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (left == 1) {
      if (axis == 0) return {};
      left = extents[--axis];
      step = steps[axis];
    }
    if (left % shape[i] != 0) return {};
    strides[i] = step;
    step *= static_cast<int64_t>(shape[i]);
    left /= shape[i];
  }
  return strides;
}

std::shared_ptr<const std::vector<Place>> places_of(const View& view) {
  auto places = std::make_shared<std::vector<Place>>();
  places->reserve(view.elements());
  ipu_emulator::for_each_row(view, [&](uint64_t, uint32_t variable, uint64_t element, uint64_t count, int64_t step) {
    for (uint64_t i = 0; i < count; ++i) places->push_back({variable, element + i * static_cast<uint64_t>(step)});
  });
  return places;
}

std::vector<int64_t> dense_strides(const std::vector<size_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= static_cast<int64_t>(shape[i])) strides[i] = stride;
  return strides;
}

void expect(bool condition, const std::string& text) {
  if (!condition) throw tensor_error(text);
}

}  // namespace

std::string Tensor::shapeToString() const { return text_of(shape()); }

Tensor Tensor::operator[](size_t i) const {
  expect(rank() > 0, "expected a tensor of rank 1 or more to index, found a scalar");
  return slice(i, i + 1, 0).squeeze({0});
}

Tensor Tensor::slice(size_t begin, size_t end, unsigned dimension) const {
  expect(dimension < rank() && begin <= end && end <= dim(dimension),
         "expected a slice within " + shapeToString() + ", found [" + std::to_string(begin) + ", " +
             std::to_string(end) + ") of dimension " + std::to_string(dimension));
  View view = *view_;
  view.offset += static_cast<int64_t>(begin) * view.strides[dimension];
  view.shape[dimension] = end - begin;
  return Tensor(std::move(view));
}

Tensor Tensor::slice(const std::vector<size_t>& begin, const std::vector<size_t>& end) const {
  expect(begin.size() == rank() && end.size() == rank(), "expected a begin and an end for each dimension");
  Tensor result = *this;
  for (unsigned i = 0; i < rank(); ++i) result = result.slice(begin[i], end[i], i);
  return result;
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  expect(dimension < rank() && stride > 0, "expected a stride of at least 1, and a dimension of the tensor");
  View view = *view_;
  view.shape[dimension] = (view.shape[dimension] + stride - 1) / stride;
  view.strides[dimension] *= stride;
  return Tensor(std::move(view));
}

Tensor Tensor::dimShuffle(const std::vector<unsigned>& permutation) const {
  expect(permutation.size() == rank(), "expected a permutation of " + std::to_string(rank()) + " dimensions");
  View view = *view_;
  std::vector<bool> seen(rank(), false);
  for (size_t i = 0; i < permutation.size(); ++i) {
    expect(permutation[i] < rank() && !seen[permutation[i]], "expected a permutation");
    seen[permutation[i]] = true;
    view.shape[i] = view_->shape[permutation[i]];
    view.strides[i] = view_->strides[permutation[i]];
  }
  return Tensor(std::move(view));
}

Tensor Tensor::dimRoll(unsigned dimension, unsigned to) const {
  std::vector<unsigned> permutation(rank());
  std::iota(permutation.begin(), permutation.end(), 0u);
  permutation.erase(permutation.begin() + dimension);
  permutation.insert(permutation.begin() + to, dimension);
  return dimShuffle(permutation);
}

Tensor Tensor::reshape(const std::vector<size_t>& shape) const {
  View view = *view_;
  view.shape = shape;
  expect(view.elements() == numElements(),
         "expected a shape of " + std::to_string(numElements()) + " elements, found " + text_of(shape));
  if (view.elements() == 0) {
    view.strides = dense_strides(shape);
    return Tensor(std::move(view));
  }
  view.strides = strides_in(*view_, shape);
  if (view.strides.empty() && !shape.empty()) {
    view.places = places_of(*view_);
    view.strides = dense_strides(shape);
    view.offset = 0;
  }
  return Tensor(std::move(view));
}

Tensor Tensor::flatten(unsigned begin, unsigned end) const {
  std::vector<size_t> shape(view_->shape.begin(), view_->shape.begin() + begin);
  shape.push_back(
      std::accumulate(view_->shape.begin() + begin, view_->shape.begin() + end, size_t{1}, std::multiplies<>()));
  shape.insert(shape.end(), view_->shape.begin() + end, view_->shape.end());
  return reshape(shape);
}

Tensor Tensor::expand(const std::vector<size_t>& before) const {
  std::vector<size_t> shape;
  for (size_t i = 0; i <= view_->shape.size(); ++i) {
    for (const size_t place : before)
      if (place == i) shape.push_back(1);
    if (i < view_->shape.size()) shape.push_back(view_->shape[i]);
  }
  return reshape(shape);
}

Tensor Tensor::squeeze(const std::vector<size_t>& dimensions) const {
  View view = *view_;
  view.shape.clear();
  view.strides.clear();
  for (size_t i = 0; i < view_->shape.size(); ++i) {
    if (std::find(dimensions.begin(), dimensions.end(), i) != dimensions.end()) {
      expect(view_->shape[i] == 1, "expected an extent of 1 to squeeze, found " + shapeToString());
      continue;
    }
    view.shape.push_back(view_->shape[i]);
    view.strides.push_back(view_->strides[i]);
  }
  return Tensor(std::move(view));
}

Tensor Tensor::broadcast(unsigned times, unsigned dimension) const {
  expect(dimension < rank(), "expected a dimension of the tensor to repeat");
  if (dim(dimension) == 1) {
    View view = *view_;
    view.shape[dimension] = times;
    view.strides[dimension] = 0;
    return Tensor(std::move(view));
  }
  return concat(std::vector<Tensor>(times, *this), dimension);
}

Tensor Tensor::reverse(unsigned dimension) const {
  expect(dimension < rank(), "expected a dimension of the tensor to reverse");
  View view = *view_;
  if (view.shape[dimension] > 0)
    view.offset += static_cast<int64_t>(view.shape[dimension] - 1) * view.strides[dimension];
  view.strides[dimension] = -view.strides[dimension];
  return Tensor(std::move(view));
}

Tensor Tensor::transpose() const {
  expect(rank() >= 2, "expected a matrix to transpose");
  std::vector<unsigned> permutation(rank());
  std::iota(permutation.begin(), permutation.end(), 0u);
  std::swap(permutation[rank() - 1], permutation[rank() - 2]);
  return dimShuffle(permutation);
}

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat(std::vector<Tensor>{first, second}, dimension);
}

Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension) {
  expect(!tensors.empty(), "expected at least one tensor to concatenate");
  View view = tensors[0].view();
  expect(dimension < view.shape.size(), "expected a dimension of the tensors to concatenate along");
  view.shape[dimension] = 0;
  size_t before = 1, behind = 1;
  for (size_t i = 0; i < dimension; ++i) before *= view.shape[i];
  for (size_t i = dimension + 1; i < view.shape.size(); ++i) behind *= view.shape[i];
  std::vector<std::shared_ptr<const std::vector<Place>>> parts;
  for (const Tensor& tensor : tensors) {
    expect(tensor.elementType() == view.type, "expected tensors of one type to concatenate");
    for (unsigned i = 0; i < tensor.rank(); ++i)
      expect(i == dimension || tensor.dim(i) == view.shape[i], "expected tensors of one shape but for one dimension");
    view.shape[dimension] += tensor.dim(dimension);
    parts.push_back(places_of(tensor.view()));
  }
  auto places = std::make_shared<std::vector<Place>>();
  places->reserve(view.elements());
  for (size_t i = 0; i < before; ++i)
    for (size_t t = 0; t < tensors.size(); ++t) {
      const size_t row = tensors[t].dim(dimension) * behind;
      places->insert(places->end(), parts[t]->begin() + static_cast<ptrdiff_t>(i * row),
                     parts[t]->begin() + static_cast<ptrdiff_t>((i + 1) * row));
    }
  view.places = std::move(places);
  view.strides = dense_strides(view.shape);
  view.offset = 0;
  return Tensor(std::move(view));
}

}  // namespace poplar
