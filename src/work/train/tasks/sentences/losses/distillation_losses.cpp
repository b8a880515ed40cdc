// SPDX-License-Identifier: Apache-2.0
// What a teacher said is learnt: its vectors, or how much closer it finds a positive than a negative.
#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"
#include "work/train/tasks/sentences/losses/similarities.h"

namespace transom {
namespace {

// The vectors of all columns are to be the one that the row gives (Reimers and Gurevych, "Making monolingual sentence
// embeddings multilingual", 2020).
class VectorDistillation : public SentenceLoss {
 public:
  enum class Metric { kMeanSquare, kLength, kCosine };
  explicit VectorDistillation(Metric metric) : metric_(metric) {}

  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor taught = cast(batch.labels, DType::kFloat32);
    if (taught.rank() != 2 || taught.shape() != batch.columns[0].shape())
      fail("a label is a vector of the teacher: expected {} numbers, as the model's vectors have, found {}",
           batch.columns[0].dim(1), taught.rank() == 2 ? taught.dim(1) : 1);
    Tensor total;
    for (const Tensor& column : batch.columns) {
      const Tensor loss = mean_of_all(losses(column, taught), batch.context);
      total = total.defined() ? total + loss : loss;
    }
    return total / static_cast<double>(batch.columns.size());
  }

 private:
  Tensor losses(const Tensor& vectors, const Tensor& taught) const {
    const Tensor off = vectors - taught;
    switch (metric_) {
      case Metric::kLength:
        return distance_of_rows(vectors, taught, Distance::kEuclidean);
      case Metric::kCosine:
        return distance_of_rows(vectors, taught, Distance::kCosine);
      default:
        return off * off;
    }
  }
  Metric metric_;
};

std::unique_ptr<SentenceLoss> make_mean_square(LossOptions& given, int64_t, int64_t) {
  given.only("projection_dim", nullptr);
  return std::make_unique<VectorDistillation>(VectorDistillation::Metric::kMeanSquare);
}

std::unique_ptr<SentenceLoss> make_embed_distillation(LossOptions& given, int64_t, int64_t) {
  given.only("projection_dim", nullptr);
  const std::string how = given.choice("distance_metric", {"mse", "l2", "cosine"}, "cosine");
  return std::make_unique<VectorDistillation>(how == "mse"  ? VectorDistillation::Metric::kMeanSquare
                                              : how == "l2" ? VectorDistillation::Metric::kLength
                                                            : VectorDistillation::Metric::kCosine);
}

// Hofstätter et al., "Improving efficient neural ranking models with cross-architecture knowledge distillation" (2020).
class MarginDistillation : public SentenceLoss {
 public:
  explicit MarginDistillation(Closeness how) : how_(how) {}

  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor& query = batch.columns[0];
    const int64_t rows = query.dim(0), negatives = static_cast<int64_t>(batch.columns.size()) - 2;
    const Tensor positive = closeness_of_rows(query, batch.columns[1], how_);
    std::vector<Tensor> margins;
    for (size_t i = 2; i < batch.columns.size(); ++i)
      margins.push_back(unsqueeze(positive - closeness_of_rows(query, batch.columns[i], how_), 1));
    const Tensor off = concatenate(margins, 1) - margins_of_labels(batch.labels, rows, negatives);
    return mean_of_all(off * off, batch.context);
  }

 private:
  Closeness how_;
};

std::unique_ptr<SentenceLoss> make_margin_distillation(LossOptions& given, int64_t, int64_t) {
  const std::string how =
      given.choice("similarity_fct", {"pairwise_dot_score", "pairwise_cos_sim"}, "pairwise_dot_score");
  return std::make_unique<MarginDistillation>(how == "pairwise_cos_sim" ? Closeness::kCosine : Closeness::kDot);
}

constexpr SentenceLossRecord kDistillationLosses[] = {
    {"MSELoss", 1, 64, SentenceLabels::kVector, make_mean_square},
    {"EmbedDistillLoss", 1, 64, SentenceLabels::kVector, make_embed_distillation},
    {"MarginMSELoss", 3, 64, SentenceLabels::kMargins, make_margin_distillation},
};
const RegisterSentenceLosses kRegisterDistillationLosses(kDistillationLosses);

}  // namespace

Tensor margins_of_labels(const Tensor& labels, int64_t rows, int64_t negatives) {
  const Tensor given = reshape(cast(labels, DType::kFloat32), {rows, -1});
  if (given.dim(1) == negatives + 1) return slice(given, 1, 0, 1) - slice(given, 1, 1, negatives + 1);
  if (given.dim(1) != negatives)
    fail(
        "a label holds a margin for each negative, or the scores of the positive and of each: expected {} or {} "
        "numbers, found {}",
        negatives, negatives + 1, given.dim(1));
  return given;
}

}  // namespace transom
