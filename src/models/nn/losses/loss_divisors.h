// SPDX-License-Identifier: Apache-2.0
// What the means of a loss divide by. A batch that is computed in parts (micro-batches, the rows of each process) has
// the loss and the gradient of the whole where every part divides its sums by the counts of all parts.
#pragma once

#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

class LossDivisors {
 public:
  LossDivisors() = default;  // every mean divides by its own count
  // The counts of the whole batch, f32 [], in the order in which the loss of a part asks for them.
  explicit LossDivisors(std::vector<Tensor> of_whole_batch) : given_(std::move(of_whole_batch)) {}

  // What a mean over so many (f32 []) divides by.
  Tensor divisor(const Tensor& count);
  // The loss, or a term of it, is a sum: parts of a batch add up as they are.
  void adds_up() { adds_up_ = true; }

  const std::vector<Tensor>& counts() const { return counts_; }
  bool is_sum() const { return adds_up_; }

 private:
  std::vector<Tensor> given_, counts_;
  bool adds_up_ = false;
};

// sum / count, or the part of the whole batch's mean that is this batch's; `count` f32 [].
Tensor mean_of(const Tensor& sum, const Tensor& count, const ForwardContext& context);
// The mean of all elements of `losses`, likewise.
Tensor mean_of_all(const Tensor& losses, const ForwardContext& context);
// A sum over the rows of a batch.
Tensor sum_of(const Tensor& sum, const ForwardContext& context);

}  // namespace transom
