// SPDX-License-Identifier: Apache-2.0
// Makes one random graph: values gather in a pool, from which each step takes what fits.
#pragma once

#include <functional>

#include "graph/ir/tensor_map.h"
#include "random_graphs/graph_case.h"
#include "transom/ops.h"

namespace transom::random_graphs {

class Generator {
 public:
  explicit Generator(uint64_t seed);
  GraphCase make();

  Random random;
  int64_t largest = 4096;  // elements of a value

  // Values from the pool, or new inputs.
  Tensor any();
  Tensor floating();
  Tensor number();  // no bool
  Tensor integer();
  Tensor boolean();
  Tensor of_type(const Type& type);
  Tensor with_rank(const std::function<Tensor()>& source, int64_t low, int64_t high);
  Tensor partner_of(const Tensor& x);  // of its element type, and a shape that broadcasts with its
  Tensor indices(Shape shape, int64_t limit);

  // A new input with values of its own: floating ones in [low, high], integers in [0, limit).
  Tensor input(const Type& type, double low, double high, int64_t limit);
  Tensor input(const Type& type);

  DType floating_type();
  DType any_type();
  int64_t extent();
  Shape shape(int64_t low_rank, int64_t high_rank);
  int64_t axis_of(const Tensor& x) { return random.below(x.rank()); }
  Axes axes_of(const Tensor& x);  // rising, perhaps none

  void keep(const Tensor& tensor);  // into the pool, unless it is too large
  void keep(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) keep(tensor);
  }

 private:
  Tensor pooled(const std::function<bool(const Tensor&)>& fits);
  void add_gradients(std::vector<Tensor>& outputs);

  std::vector<Tensor> pool_;
  std::vector<Tensor> inputs_;
  std::vector<Array> values_;
};

// One step: an operation, or a few that belong together. It may throw an Error where what it chose does not fit.
struct Step {
  int weight;
  void (*run)(Generator&);
};
std::span<const Step> element_steps();
std::span<const Step> movement_steps();
std::span<const Step> contraction_steps();
std::span<const Step> composite_steps();

}  // namespace transom::random_graphs
