// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/ranking/ranking_loss.h"

#include <cmath>

#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/ranking/list_losses.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {
namespace {

class BinaryCrossEntropy : public RankingLoss {
 public:
  explicit BinaryCrossEntropy(double positive_weight) : positive_weight_(positive_weight) {}
  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor x = reshape(batch.logits, {-1}), y = reshape(batch.labels, {-1});
    return mean_of_all((1 - y) * x + (y * (positive_weight_ - 1) + 1.0) * softplus(-x), batch.context);
  }

 private:
  double positive_weight_;
};

class ClassCrossEntropy : public RankingLoss {
 public:
  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor labels = cast(reshape(batch.labels, {-1}), DType::kInt64);
    return mean_of_all(cross_entropy(batch.logits, labels, -100, kAsGiven), batch.context);
  }
};

class MeanSquare : public RankingLoss {
 public:
  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor off = reshape(batch.logits, {-1}) - reshape(batch.labels, {-1});
    return mean_of_all(off * off, batch.context);
  }
};

class MarginMeanSquare : public RankingLoss {
 public:
  Tensor operator()(const RankingBatch& batch) const override {
    const int64_t rows = batch.logits.dim(0), documents = batch.logits.dim(1);
    const Tensor margins = slice(batch.logits, 1, 0, 1) - slice(batch.logits, 1, 1, documents);
    const Tensor off = margins - margins_of_labels(batch.labels, rows, documents - 1);
    return mean_of_all(off * off, batch.context);
  }
};

class RankingNegatives : public RankingLoss {
 public:
  RankingNegatives(std::optional<int64_t> negatives, double scale, bool sigmoid)
      : negatives_(negatives), scale_(scale), sigmoid_(sigmoid) {}
  std::optional<int64_t> negatives_of_batch() const override { return negatives_; }
  Tensor operator()(const RankingBatch& batch) const override {
    const Tensor scores = (sigmoid_ ? sigmoid(batch.logits) : batch.logits) * scale_;
    return mean_of_all(cross_entropy(scores, zeros({scores.dim(0)}, DType::kInt64), -100, kAsGiven), batch.context);
  }

 private:
  std::optional<int64_t> negatives_;
  double scale_;
  bool sigmoid_;
};

constexpr const char* kIdentity = "torch.nn.modules.linear.Identity";

void identity_only(LossOptions& given) { given.only("activation_fn", kIdentity); }

std::unique_ptr<RankingLoss> make_binary(LossOptions& given) {
  identity_only(given);
  return std::make_unique<BinaryCrossEntropy>(given.number_above_zero("pos_weight", 1));
}

template <typename Loss>
std::unique_ptr<RankingLoss> make_plain(LossOptions& given) {
  identity_only(given);
  return std::make_unique<Loss>();
}

std::unique_ptr<RankingLoss> make_negatives(LossOptions& given) {
  // null is a value here: all.
  const bool all = given.holds_null("num_negatives");
  const std::optional<int64_t> count = given.count("num_negatives");
  const std::string activation = given.choice("activation_fn", {"Sigmoid", "Identity"}, "Sigmoid");
  return std::make_unique<RankingNegatives>(all ? std::nullopt : std::optional(count.value_or(4)),
                                            given.number_above_zero("scale", 10), activation == "Sigmoid");
}

// All pairs of a batch are computed together: the numbers are the same.
std::unique_ptr<RankingLoss> make_cached_negatives(LossOptions& given) {
  given.value("mini_batch_size");
  given.only("show_progress_bar", false);
  return make_negatives(given);
}

constexpr RankingLossRecord kRankingLossRecords[] = {
    {"ADRMSELoss", RankingForm::kLists, make_rank_distance_loss},
    {"BinaryCrossEntropyLoss", RankingForm::kBinary, make_binary},
    {"CachedMultipleNegativesRankingLoss", RankingForm::kNegatives, make_cached_negatives},
    {"CrossEntropyLoss", RankingForm::kClasses, make_plain<ClassCrossEntropy>},
    {"LambdaLoss", RankingForm::kLists, make_lambda_loss},
    {"ListMLELoss", RankingForm::kLists, make_list_mle_loss},
    {"ListNetLoss", RankingForm::kLists, make_list_net_loss},
    {"MSELoss", RankingForm::kScored, make_plain<MeanSquare>},
    {"MarginMSELoss", RankingForm::kMargins, make_plain<MarginMeanSquare>},
    {"MultipleNegativesRankingLoss", RankingForm::kNegatives, make_negatives},
    {"PListMLELoss", RankingForm::kLists, make_position_list_mle_loss},
    {"RankNetLoss", RankingForm::kLists, make_rank_net_loss},
};

}  // namespace

const RankingLossRecord& ranking_loss_named(const std::string& name) {
  std::vector<std::string> names;
  for (const RankingLossRecord& each : kRankingLossRecords) {
    if (each.name == name) return each;
    names.emplace_back(each.name);
  }
  fail(ErrorKind::kUsage, "--loss: {} is no loss of text-ranking{}; known are: {}", quoted(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace transom
