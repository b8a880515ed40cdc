// SPDX-License-Identifier: Apache-2.0
// Losses of pairs with a score, with 0 or 1, or with a class.
#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"
#include "work/train/tasks/sentences/losses/similarities.h"

namespace transom {
namespace {

Tensor as_numbers(const Tensor& labels) { return cast(reshape(labels, {-1}), DType::kFloat32); }

class CosineSimilarity : public SentenceLoss {
 public:
  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor off =
        closeness_of_rows(batch.columns[0], batch.columns[1], Closeness::kCosine) - as_numbers(batch.labels);
    return mean_of_all(off * off, batch.context);
  }
};

std::unique_ptr<SentenceLoss> make_cosine_similarity(LossOptions& given, int64_t, int64_t) {
  given.only("loss_fct", "torch.nn.modules.loss.MSELoss");
  given.only("cos_score_transformation", "torch.nn.modules.linear.Identity");
  return std::make_unique<CosineSimilarity>();
}

enum class PairCloseness { kCosine, kDot, kEuclidean, kManhattan, kAngle };

Tensor pair_closeness(const Tensor& a, const Tensor& b, PairCloseness how) {
  switch (how) {
    case PairCloseness::kDot:
      return closeness_of_rows(a, b, Closeness::kDot);
    case PairCloseness::kEuclidean:
      return -distance_of_rows(a, b, Distance::kEuclidean);
    case PairCloseness::kManhattan:
      return -distance_of_rows(a, b, Distance::kManhattan);
    case PairCloseness::kAngle:
      return angle_closeness_of_rows(a, b);
    default:
      return closeness_of_rows(a, b, Closeness::kCosine);
  }
}

// Su, "CoSENT" (2022): log(1 + sum exp(scale (s_i - s_j))) over the pairs of rows of which row j has the higher score.
class CoSent : public SentenceLoss {
 public:
  CoSent(double scale, PairCloseness how) : scale_(scale), how_(how) {}

  Tensor operator()(const VectorBatch& batch) const override {
    return loss(batch.columns[0], batch.columns[1], as_numbers(batch.labels));
  }

 protected:
  Tensor loss(const Tensor& a, const Tensor& b, const Tensor& labels) const {
    const Tensor scores = pair_closeness(a, b, how_) * scale_;
    const int64_t rows = scores.dim(0);
    const Tensor lower =
        less(broadcast_to(unsqueeze(labels, 1), {rows, rows}), broadcast_to(unsqueeze(labels, 0), {rows, rows}));
    const Tensor differences =
        select(lower, unsqueeze(scores, 1) - unsqueeze(scores, 0), full({rows, rows}, kMaskedScore));
    return log_sum_exp(concatenate({zeros({1}), reshape(differences, {-1})}, 0));
  }

 private:
  double scale_;
  PairCloseness how_;
};

std::unique_ptr<SentenceLoss> make_cosent(LossOptions& given, int64_t, int64_t) {
  const std::string how = given.choice("similarity_fct",
                                       {"pairwise_cos_sim", "pairwise_dot_score", "pairwise_euclidean_sim",
                                        "pairwise_manhattan_sim", "pairwise_angle_sim"},
                                       "pairwise_cos_sim");
  const PairCloseness closeness = how == "pairwise_cos_sim"         ? PairCloseness::kCosine
                                  : how == "pairwise_dot_score"     ? PairCloseness::kDot
                                  : how == "pairwise_euclidean_sim" ? PairCloseness::kEuclidean
                                  : how == "pairwise_manhattan_sim" ? PairCloseness::kManhattan
                                                                    : PairCloseness::kAngle;
  return std::make_unique<CoSent>(given.number("scale", 20), closeness);
}

// Li and Li, "AnglE-optimized text embeddings" (2023). Of more columns than two, each pair of the first with another
// one is a row: the label belongs to the second, and its opposite to the others.
class Angle : public CoSent {
 public:
  explicit Angle(double scale) : CoSent(scale, PairCloseness::kAngle) {}

  Tensor operator()(const VectorBatch& batch) const override {
    const int64_t rows = batch.columns[0].dim(0);
    const size_t pairs = batch.columns.size() - 1;
    if (pairs == 1) return CoSent::operator()(batch);
    const Tensor label = batch.labels.defined() ? as_numbers(batch.labels) : full({rows}, 1);
    std::vector<Tensor> labels(pairs, 1 - label);
    labels[0] = label;
    return loss(concatenate(std::vector<Tensor>(pairs, batch.columns[0]), 0),
                concatenate({batch.columns.begin() + 1, batch.columns.end()}, 0), concatenate(labels, 0));
  }
};

std::unique_ptr<SentenceLoss> make_angle(LossOptions& given, int64_t, int64_t) {
  return std::make_unique<Angle>(given.number("scale", 20));
}

// Reimers and Gurevych, "Sentence-BERT" (2019): a classifier over the two vectors and their difference.
class Softmax : public SentenceLoss {
 public:
  struct Options {
    int64_t classes;
    bool both, difference, product;
  };
  Softmax(Options options, int64_t width, int64_t seed) : options_(options) {
    const int64_t parts = 2 * options.both + options.difference + options.product, in = parts * width;
    // As torch.nn.Linear draws them behind manual_seed(seed).
    Mt19937 draws(static_cast<uint64_t>(seed));
    const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(in)));
    weight_ = drawn("loss.classifier.weight", {options.classes, in}, draws, bound);
    bias_ = drawn("loss.classifier.bias", {options.classes}, draws, bound);
  }
  std::vector<std::shared_ptr<Parameter>> parameters() const override { return {weight_, bias_}; }

  Tensor operator()(const VectorBatch& batch) const override {
    const Tensor &a = batch.columns[0], &b = batch.columns[1];
    std::vector<Tensor> parts;
    if (options_.both) parts = {a, b};
    if (options_.difference) parts.push_back(abs(a - b));
    if (options_.product) parts.push_back(a * b);
    const Tensor logits = linear(concatenate(parts, 1), weight_->value, bias_->value, kAsGiven);
    const Tensor labels = cast(reshape(batch.labels, {-1}), DType::kInt64);
    return mean_of_all(cross_entropy(logits, labels, -100, kAsGiven), batch.context);
  }

 private:
  static std::shared_ptr<Parameter> drawn(const char* name, const Shape& shape, Mt19937& draws, float bound) {
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    draws.fill_uniform(values, -bound, bound);
    auto parameter = std::make_shared<Parameter>();
    parameter->name = name;
    parameter->value = Tensor::from(values, shape);
    return parameter;
  }
  Options options_;
  std::shared_ptr<Parameter> weight_, bias_;
};

std::unique_ptr<SentenceLoss> make_softmax(LossOptions& given, int64_t width, int64_t seed) {
  const auto classes = given.count("num_labels");
  if (!classes) given.refuse("num_labels", "the number of classes");
  if (const auto dimension = given.count("embedding_dimension"); dimension && width > 0 && *dimension != width)
    given.refuse("embedding_dimension", fmt::format("{}, that of the model", width));
  const Softmax::Options options{*classes, given.flag("concatenation_sent_rep", true),
                                 given.flag("concatenation_sent_difference", true),
                                 given.flag("concatenation_sent_multiplication", false)};
  if (!options.both && !options.difference && !options.product)
    given.refuse("concatenation_sent_rep", "one of the three concatenations");
  return std::make_unique<Softmax>(options, width, seed);
}

// The loss of far positives and near negatives; of the hard ones alone with `online`.
class Contrastive : public SentenceLoss {
 public:
  struct Options {
    Distance distance;
    double margin;
    bool mean, online;
  };
  explicit Contrastive(Options options) : options_(options) {}

  Tensor operator()(const VectorBatch& batch) const override {
    // torch's pairwise_distance adds a little to each difference; its cosine does not.
    const Tensor far = distance_of_rows(batch.columns[0], batch.columns[1], options_.distance, 1e-6);
    const Tensor labels = as_numbers(batch.labels), near = relu(options_.margin - far);
    if (options_.online) return online(batch, far, near, labels);
    const Tensor losses = (labels * far * far + (1 - labels) * near * near) * 0.5;
    return options_.mean ? mean_of_all(losses, batch.context) : sum_of(sum(losses), batch.context);
  }

 private:
  // Positives that are farther apart than the nearest negatives, and negatives that are nearer than the farthest
  // positives; where a batch has one kind alone, those beyond its mean.
  static Tensor online(const VectorBatch& batch, const Tensor& far, const Tensor& near, const Tensor& labels) {
    const Shape& shape = far.shape();
    const auto is = [&](double label) { return cast(equal(labels, full(shape, label)), DType::kFloat32); };
    const Tensor positive = is(1), negative = is(0), distance = far.detach();
    const auto mean_where = [&](const Tensor& these) {
      return sum(distance * these) / maximum(sum(these), constant(1));
    };
    const auto any = [](const Tensor& these) { return greater(sum(these), constant(0)); };
    const auto holds = [&](const Tensor& these) { return greater(these, zeros(shape)); };
    const Tensor farthest =
        select(any(positive), reduce_max(select(holds(positive), distance, full(shape, kMaskedScore)), {0}),
               mean_where(negative));
    const Tensor nearest =
        select(any(negative), reduce_min(select(holds(negative), distance, full(shape, -kMaskedScore)), {0}),
               mean_where(positive));
    const Tensor hard_positive = positive * cast(greater(distance, broadcast_to(nearest, shape)), DType::kFloat32);
    const Tensor hard_negative = negative * cast(less(distance, broadcast_to(farthest, shape)), DType::kFloat32);
    return sum_of(sum(hard_positive * far * far) + sum(hard_negative * near * near), batch.context);
  }
  Options options_;
};

template <bool online>
std::unique_ptr<SentenceLoss> make_contrastive(LossOptions& given, int64_t, int64_t) {
  const std::string how =
      given.choice("distance_metric", {"COSINE_DISTANCE", "EUCLIDEAN", "MANHATTAN"}, "COSINE_DISTANCE");
  return std::make_unique<Contrastive>(Contrastive::Options{.distance = how == "EUCLIDEAN"   ? Distance::kEuclidean
                                                                        : how == "MANHATTAN" ? Distance::kManhattan
                                                                                             : Distance::kCosine,
                                                            .margin = given.number("margin", 0.5),
                                                            .mean = online || given.flag("size_average", true),
                                                            .online = online});
}

constexpr SentenceLossRecord kScoreLosses[] = {
    {"CosineSimilarityLoss", 2, 2, SentenceLabels::kScore, make_cosine_similarity},
    {"CoSENTLoss", 2, 2, SentenceLabels::kScore, make_cosent},
    {"AnglELoss", 2, 64, SentenceLabels::kMaybeBinary, make_angle},
    {"SoftmaxLoss", 2, 2, SentenceLabels::kClass, make_softmax},
    {"ContrastiveLoss", 2, 2, SentenceLabels::kBinary, make_contrastive<false>},
    {"OnlineContrastiveLoss", 2, 2, SentenceLabels::kBinary, make_contrastive<true>},
};
const RegisterSentenceLosses kRegisterScoreLosses(kScoreLosses);

}  // namespace
}  // namespace transom
