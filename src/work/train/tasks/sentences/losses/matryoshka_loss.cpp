// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "models/sentences/sentence_head.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {
namespace {

class Matryoshka : public SentenceLoss {
 public:
  Matryoshka(std::unique_ptr<SentenceLoss> loss, std::vector<int64_t> dims, std::vector<double> weights)
      : loss_(std::move(loss)), dims_(std::move(dims)), weights_(std::move(weights)) {}

  Tensor operator()(const VectorBatch& batch) const override {
    const int64_t width = batch.columns[0].dim(1);
    const bool of_vectors = batch.labels.defined() && batch.labels.rank() == 2 && batch.labels.dim(1) == width;
    Tensor total;
    for (size_t i = 0; i < dims_.size(); ++i) {
      VectorBatch first = batch;
      for (Tensor& column : first.columns) column = at_length_one(slice(column, 1, 0, dims_[i]));
      if (of_vectors) first.labels = slice(batch.labels, 1, 0, dims_[i]);
      const Tensor loss = (*loss_)(first)*weights_[i];
      total = total.defined() ? total + loss : loss;
    }
    return total;
  }
  std::vector<std::shared_ptr<Parameter>> parameters() const override { return loss_->parameters(); }
  int64_t mini_batch_size() const override { return loss_->mini_batch_size(); }

 private:
  std::unique_ptr<SentenceLoss> loss_;
  std::vector<int64_t> dims_;
  std::vector<double> weights_;
};

}  // namespace

std::unique_ptr<SentenceLoss> matryoshka_loss(std::unique_ptr<SentenceLoss> loss, std::vector<int64_t> dims,
                                              std::vector<double> weights, int64_t width) {
  if (weights.empty()) weights.assign(dims.size(), 1);
  if (weights.size() != dims.size())
    fail(ErrorKind::kUsage, "--matryoshka_weights: expected one for each of the {} matryoshka_dims, found {}",
         dims.size(), weights.size());
  for (const int64_t dim : dims)
    if (dim < 1 || (width > 0 && dim > width))
      fail(ErrorKind::kUsage,
           "--matryoshka_dims: expected numbers from 1 to {}, which the vectors of the model have, found {}", width,
           dim);
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return dims[a] > dims[b]; });
  std::vector<int64_t> sorted;
  std::vector<double> sorted_weights;
  for (const size_t i : order) sorted.push_back(dims[i]), sorted_weights.push_back(weights[i]);
  return std::make_unique<Matryoshka>(std::move(loss), std::move(sorted), std::move(sorted_weights));
}

}  // namespace transom
