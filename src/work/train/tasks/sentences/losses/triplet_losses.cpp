// SPDX-License-Identifier: Apache-2.0
// An anchor is nearer to its positive than to its negative, by a margin: of triplets that are given, or that are found
// among the rows of a batch by their classes (Hermans et al., "In defense of the triplet loss", 2017).
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"
#include "work/train/tasks/sentences/losses/similarities.h"

namespace transom {
namespace {

class Triplet : public SentenceLoss {
 public:
  Triplet(Distance distance, double margin) : distance_(distance), margin_(margin) {}
  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor& anchor = batch.columns[0];
    const Tensor positive = distance_of_rows(anchor, batch.columns[1], distance_);
    const Tensor negative = distance_of_rows(anchor, batch.columns[2], distance_);
    return mean_of_all(relu(positive - negative + margin_), batch.context);
  }

 private:
  Distance distance_;
  double margin_;
};

std::unique_ptr<SentenceLoss> make_triplet(LossOptions& given, int64_t, int64_t) {
  const std::string how = given.choice("distance_metric", {"COSINE", "EUCLIDEAN", "MANHATTAN"}, "EUCLIDEAN");
  const Distance distance = how == "COSINE"      ? Distance::kCosine
                            : how == "EUCLIDEAN" ? Distance::kEuclidean
                                                 : Distance::kManhattan;
  return std::make_unique<Triplet>(distance, given.number("triplet_margin", 5));
}

// Which rows have the class of which, without themselves, and which another: f32 [B, B].
struct Classes {
  Tensor same, other;
  explicit Classes(const Tensor& given) {
    const Tensor labels = reshape(given, {-1});
    const int64_t rows = labels.dim(0);
    const Tensor alike =
        cast(equal(broadcast_to(unsqueeze(labels, 0), {rows, rows}), broadcast_to(unsqueeze(labels, 1), {rows, rows})),
             DType::kFloat32);
    same = alike * (1 - diagonal(rows, rows));
    other = 1 - alike;
  }
};

// The farthest of its class and the nearest of another one, for each row.
class BatchHard : public SentenceLoss {
 public:
  BatchHard(Distance distance, std::optional<double> margin) : distance_(distance), margin_(margin) {}
  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor apart = distances(batch.columns[0], distance_);
    const Classes classes(batch.labels);
    const Tensor positive = reduce_max(classes.same * apart, {1});
    const Tensor negative = reduce_min(apart + reduce_max(apart, {1}, true) * (1 - classes.other), {1});
    const Tensor difference = positive - negative;
    return mean_of_all(margin_ ? relu(difference + *margin_) : softplus(difference), batch.context);
  }

 private:
  Distance distance_;
  std::optional<double> margin_;  // none: soft
};

// Of each pair of a class the nearest row of another class that is farther away than the pair is apart; where there is
// none the farthest of another class (Schroff et al., "FaceNet", 2015).
class BatchSemiHard : public SentenceLoss {
 public:
  BatchSemiHard(Distance distance, double margin) : distance_(distance), margin_(margin) {}
  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor apart = distances(batch.columns[0], distance_);
    const int64_t rows = apart.dim(0);
    const Shape cube{rows, rows, rows};  // row, its partner, the third
    const Classes classes(batch.labels);
    const Tensor third = broadcast_to(unsqueeze(apart, 1), cube), pair = broadcast_to(unsqueeze(apart, 2), cube);
    const Tensor is_other = greater(broadcast_to(unsqueeze(classes.other, 1), cube), zeros(cube));
    const Tensor beyond = logical_and(is_other, greater(third.detach(), pair.detach()));
    const Tensor outside = reduce_min(select(beyond, third, full(cube, -kMaskedScore)), {2});
    const Tensor least = reduce_min(apart, {1}, true);
    const Tensor inside = reduce_max((apart - least) * classes.other, {1}, true) + least;
    const Tensor any = greater(reduce_max(cast(beyond, DType::kFloat32), {2}), zeros({rows, rows}));
    const Tensor negative = select(any, outside, broadcast_to(inside, {rows, rows}));
    const Tensor losses = relu((apart - negative + margin_) * classes.same);
    return sum(losses) / maximum(sum(classes.same), constant(1e-16));
  }

 private:
  Distance distance_;
  double margin_;
};

// The mean over the triplets of a batch that have a loss.
class BatchAll : public SentenceLoss {
 public:
  BatchAll(Distance distance, double margin) : distance_(distance), margin_(margin) {}
  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor apart = distances(batch.columns[0], distance_);
    const Classes classes(batch.labels);
    const Tensor triplets = unsqueeze(classes.same, 2) * unsqueeze(classes.other, 1);
    const Tensor losses = relu((unsqueeze(apart, 2) - unsqueeze(apart, 1) + margin_) * triplets);
    const Tensor count = sum(cast(greater(losses, full(losses.shape(), 1e-16)), DType::kFloat32));
    return sum(losses) / (count.detach() + 1e-16);
  }

 private:
  Distance distance_;
  double margin_;
};

Distance batch_distance(LossOptions& given) {
  const std::string how = given.choice(
      "distance_metric", {"euclidean_distance", "eucledian_distance", "cosine_distance"}, "euclidean_distance");
  return how == "cosine_distance" ? Distance::kCosine : Distance::kEuclidean;
}

template <typename Loss>
std::unique_ptr<SentenceLoss> make_batch_triplet(LossOptions& given, int64_t, int64_t) {
  const Distance distance = batch_distance(given);
  return std::make_unique<Loss>(distance, given.number("margin", 5));
}

std::unique_ptr<SentenceLoss> make_soft_batch_hard(LossOptions& given, int64_t, int64_t) {
  return std::make_unique<BatchHard>(batch_distance(given), std::nullopt);
}

constexpr SentenceLossRecord kTripletLosses[] = {
    {"TripletLoss", 3, 3, SentenceLabels::kNone, make_triplet},
    {"BatchHardTripletLoss", 1, 1, SentenceLabels::kClass, make_batch_triplet<BatchHard>},
    {"BatchHardSoftMarginTripletLoss", 1, 1, SentenceLabels::kClass, make_soft_batch_hard},
    {"BatchSemiHardTripletLoss", 1, 1, SentenceLabels::kClass, make_batch_triplet<BatchSemiHard>},
    {"BatchAllTripletLoss", 1, 1, SentenceLabels::kClass, make_batch_triplet<BatchAll>},
};
const RegisterSentenceLosses kRegisterTripletLosses(kTripletLosses);

}  // namespace
}  // namespace transom
