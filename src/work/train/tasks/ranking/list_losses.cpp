// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/ranking/list_losses.h"

#include <cmath>

#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/similarities.h"

namespace transom {
namespace {

void common_options(LossOptions& given) {
  given.only("activation_fn", "torch.nn.modules.linear.Identity");
  given.value("mini_batch_size");  // all pairs of a batch are computed together: the numbers are the same
}

// `values` where there is a document, else the lowest.
Tensor listed_or_lowest(const Tensor& values, const Tensor& listed) {
  return select(greater(listed, zeros(listed.shape())), values, full(values.shape(), kMaskedScore));
}

enum class Scheme { kNone, kLambdaRank, kSecond, kSecondPlusPlus };

class Lambda : public RankingLoss {
 public:
  struct Options {
    Scheme scheme = Scheme::kSecondPlusPlus;
    std::optional<int64_t> k;
    double sigma = 1, epsilon = 1e-10, mu = 10;
    bool binary = true;
  };
  explicit Lambda(Options options) : options_(options) {}

  Tensor operator()(const RankingBatch& batch) const override {
    const int64_t documents = batch.logits.dim(1);
    const auto [scores, order] = sort(listed_or_lowest(batch.logits, batch.listed), 1, true);
    const Tensor places = cast(order, DType::kInt64);
    const Tensor truth = take_along_axis(batch.labels, places, 1), real = take_along_axis(batch.listed, places, 1);
    const Tensor better =
        cast(greater(outer_difference(truth), zeros({truth.dim(0), documents, documents})), DType::kFloat32);
    Tensor counted = better * unsqueeze(real, 2) * unsqueeze(real, 1);
    if (options_.k) counted = counted * Tensor::from(within(documents, *options_.k), {1, documents, documents});
    Tensor losses = -softplus(-(bounded(outer_difference(scores)) * options_.sigma));
    if (options_.binary) losses = losses / std::log(2.0);
    if (options_.scheme != Scheme::kNone) losses = losses * weights(batch, truth, real);
    const Tensor all = counted.detach();
    return -sum(losses * all) / maximum(sum(all), constant(1));
  }

 private:
  static Tensor outer_difference(const Tensor& x) { return unsqueeze(x, 2) - unsqueeze(x, 1); }
  static Tensor bounded(const Tensor& x) { return maximum(minimum(x, constant(1e8)), constant(-1e8)); }
  static std::vector<float> within(int64_t documents, int64_t k) {
    std::vector<float> values;
    for (int64_t i = 0; i < documents; ++i)
      for (int64_t j = 0; j < documents; ++j) values.push_back(i < k || j < k ? 1.0f : 0.0f);
    return values;
  }
  static double discount(int64_t place) { return std::log2(2.0 + static_cast<double>(place)); }

  // [B, M, M]: what it matters that two documents change their places.
  Tensor weights(const RankingBatch& batch, const Tensor& truth, const Tensor& real) const {
    const int64_t documents = truth.dim(1);
    std::vector<float> discounts, by_distance, by_place, counts;
    for (int64_t i = 0; i < documents; ++i) {
      discounts.push_back(static_cast<float>(1 / discount(i)));
      counts.push_back(!options_.k || i < *options_.k ? 1.0f : 0.0f);
      for (int64_t j = 0; j < documents; ++j) {
        const int64_t apart = std::abs(i - j);
        by_distance.push_back(apart == 0 ? 0.0f
                                         : static_cast<float>(std::abs(1 / discount(apart - 1) - 1 / discount(apart))));
        by_place.push_back(static_cast<float>(std::abs(1 / discount(i) - 1 / discount(j))));
      }
    }
    const auto gains = [](const Tensor& labels) { return exp(maximum(labels, constant(0)) * std::log(2.0)) - 1.0; };
    const Tensor ideal = sort(listed_or_lowest(batch.labels, batch.listed), 1, true).first;
    const Tensor most = reduce_sum(
        gains(ideal) * Tensor::from(discounts, {1, documents}) * Tensor::from(counts, {1, documents}), {1}, true);
    const Tensor gain = gains(truth) * real / maximum(most, constant(options_.epsilon));
    const Tensor apart = abs(outer_difference(gain));
    const Shape square{1, documents, documents};
    const Tensor second = Tensor::from(by_distance, square) * apart, lambda = Tensor::from(by_place, square) * apart;
    return (options_.scheme == Scheme::kSecond       ? second
            : options_.scheme == Scheme::kLambdaRank ? lambda
                                                     : second * options_.mu + lambda)
        .detach();
  }

  Options options_;
};

Lambda::Options lambda_options(LossOptions& given) {
  common_options(given);
  Lambda::Options options;
  options.k = given.count("k");
  options.sigma = given.number_above_zero("sigma", 1);
  options.epsilon = given.number_above_zero("eps", 1e-10);
  options.binary = given.choice("reduction_log", {"binary", "natural"}, "binary") == "binary";
  return options;
}

// How far ranks that follow from the scores, with soft steps, are from those of the labels; ends of a list count less.
class RankDistance : public RankingLoss {
 public:
  explicit RankDistance(double alpha) : alpha_(alpha) {}

  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor others = unsqueeze(batch.listed, 1);  // [B, 1, M]
    const auto ahead = [](const Tensor& x) { return unsqueeze(x, 1) - unsqueeze(x, 2); };
    const Tensor apart = ahead(batch.labels), none = zeros(apart.shape());
    const auto count = [&](const Tensor& which) { return reduce_sum(cast(which, DType::kFloat32) * others, {2}); };
    // Equal labels share their mean rank.
    const Tensor wanted = count(greater(apart, none)) + (count(equal(apart, none)) + 1.0) * 0.5;
    const Tensor found = reduce_sum(sigmoid(ahead(batch.logits) * alpha_) * others, {2}) + 0.5;
    const Tensor off = wanted - found, discount = std::log(2.0) / log(wanted + 1.0);
    return sum(off * off * discount * batch.listed) / maximum(sum(batch.listed), constant(1));
  }

 private:
  double alpha_;
};

// The likeliest first document, and so on, as a distribution over the list.
class ListNet : public RankingLoss {
 public:
  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor wanted = softmax(listed_or_lowest(batch.labels, batch.listed), kAsGiven);
    const Tensor found = log_softmax(listed_or_lowest(batch.logits, batch.listed), kAsGiven);
    return mean_of_all(-reduce_sum(wanted * found * batch.listed, {1}), batch.context);
  }
};

// How likely the order of the list is where documents are drawn one after the other.
class ListMle : public RankingLoss {
 public:
  ListMle(bool weighs, bool by_labels) : weighs_(weighs), by_labels_(by_labels) {}

  Tensor operator()(const RankingBatch& batch) const override {
    Tensor logits = batch.logits, listed = batch.listed;
    const int64_t rows = logits.dim(0), documents = logits.dim(1);
    if (by_labels_) {
      const Tensor order = cast(sort(listed_or_lowest(batch.labels, listed), 1, true).second, DType::kInt64);
      logits = take_along_axis(logits, order, 1), listed = take_along_axis(listed, order, 1);
    }
    std::vector<float> behind;
    for (int64_t i = 0; i < documents; ++i)
      for (int64_t j = 0; j < documents; ++j) behind.push_back(j >= i ? 1.0f : 0.0f);
    const Shape cube{rows, documents, documents};
    const Tensor left = broadcast_to(Tensor::from(behind, {1, documents, documents}) * unsqueeze(listed, 1), cube);
    const Tensor among = listed_or_lowest(broadcast_to(unsqueeze(logits, 1), cube), left);
    Tensor likelihoods = logits - log_sum_exp(among);
    if (weighs_) likelihoods = likelihoods * position_weights(batch.listed);
    likelihoods = select(greater(listed, zeros(listed.shape())), likelihoods, zeros(likelihoods.shape()));
    return mean_of_all(-reduce_sum(likelihoods, {1}), batch.context);
  }

 private:
  // 2^(n - rank) - 1 over their sum.
  static Tensor position_weights(const Tensor& listed) {
    const Tensor count = reduce_sum(listed, {1}, true), rank = cast(iota(listed.shape(), 1), DType::kFloat32) + 1.0;
    const Tensor scale = maximum(count - 127.0, constant(0));
    const auto two_to = [](const Tensor& x) { return exp(x * std::log(2.0)); };
    const Tensor weights = (two_to(count - rank - scale) - two_to(-scale)) * listed;
    return (weights / (reduce_sum(weights, {1}, true) + 1e-10)).detach();
  }
  bool weighs_, by_labels_;
};

std::unique_ptr<RankingLoss> make_list_mle(LossOptions& given, bool weighs) {
  common_options(given);
  if (weighs) given.only("lambda_weight", nullptr);
  return std::make_unique<ListMle>(weighs, !given.flag("respect_input_order", true));
}

}  // namespace

std::unique_ptr<RankingLoss> make_lambda_loss(LossOptions& given) {
  Lambda::Options options = lambda_options(given);
  const std::string scheme = given.choice(
      "weighting_scheme", {"NDCGLoss2PPScheme", "NDCGLoss2Scheme", "LambdaRankScheme", "NoWeightingScheme"},
      "NDCGLoss2PPScheme");
  options.scheme = scheme == "NDCGLoss2PPScheme"  ? Scheme::kSecondPlusPlus
                   : scheme == "NDCGLoss2Scheme"  ? Scheme::kSecond
                   : scheme == "LambdaRankScheme" ? Scheme::kLambdaRank
                                                  : Scheme::kNone;
  return std::make_unique<Lambda>(options);
}

std::unique_ptr<RankingLoss> make_rank_net_loss(LossOptions& given) {
  Lambda::Options options = lambda_options(given);
  options.scheme = Scheme::kNone;
  return std::make_unique<Lambda>(options);
}

std::unique_ptr<RankingLoss> make_list_net_loss(LossOptions& given) {
  common_options(given);
  return std::make_unique<ListNet>();
}

std::unique_ptr<RankingLoss> make_rank_distance_loss(LossOptions& given) {
  common_options(given);
  return std::make_unique<RankDistance>(given.number_above_zero("alpha", 1));
}

std::unique_ptr<RankingLoss> make_list_mle_loss(LossOptions& given) { return make_list_mle(given, false); }
std::unique_ptr<RankingLoss> make_position_list_mle_loss(LossOptions& given) { return make_list_mle(given, true); }

}  // namespace transom
