// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {
namespace {

constexpr const char* kSpladeOptions[] = {"loss",
                                          "document_regularizer_weight",
                                          "query_regularizer_weight",
                                          "document_regularizer",
                                          "query_regularizer",
                                          "document_regularizer_threshold",
                                          "query_regularizer_threshold",
                                          "use_document_regularizer_only",
                                          "scheduler_type",
                                          "warmup_ratio"};

// The squares of the mean weights of texts [N, V], f32 [].
Tensor squared_means(const Tensor& texts, const std::optional<int64_t>& threshold) {
  Tensor counted = texts;
  if (threshold) {
    const Tensor active = reduce_sum(cast(not_equal(texts, zeros(texts.shape())), DType::kFloat32), {1}, true);
    counted = texts * cast(greater(active, full(active.shape(), static_cast<double>(*threshold))), DType::kFloat32);
  }
  const Tensor means = mean(counted, {0});
  return sum(means * means);
}

class Splade : public SentenceLoss {
 public:
  Splade(std::unique_ptr<SentenceLoss> loss, SpladeOptions options) : loss_(std::move(loss)), options_(options) {}

  Tensor operator()(const VectorBatch& batch) const override {
    const std::vector<Tensor>& all = batch.columns;
    const Tensor one = full({}, 1);
    const auto regularizer = [&](const Tensor& texts, const std::optional<int64_t>& threshold, double weight) {
      const Tensor term = mean_of(squared_means(texts, threshold), one, batch.context) * weight;
      return batch.share.defined() ? term * batch.share : term;
    };
    const Tensor base = (*loss_)(batch);
    const std::vector<Tensor> documents(all.begin() + (options_.documents_alone ? 0 : 1), all.end());
    const Tensor of_documents = regularizer(documents.size() == 1 ? documents[0] : concatenate(documents, 0),
                                            options_.document_threshold, options_.document_weight);
    Tensor total = base + of_documents, of_queries;
    if (options_.query_weight) {
      of_queries = regularizer(all[0], options_.query_threshold, *options_.query_weight);
      total = total + of_queries;
    }
    const Tensor part = mean_of(one, one, batch.context);  // that the terms are, asked for in each pass alike
    if (batch.terms) {
      batch.terms->set("base_loss", base.detach());
      batch.terms->set("document_regularizer_loss", of_documents.detach());
      if (of_queries.defined()) batch.terms->set("query_regularizer_loss", of_queries.detach());
      batch.terms->set("part_of_batch", part);
    }
    return total;
  }
  std::vector<std::shared_ptr<Parameter>> parameters() const override { return loss_->parameters(); }

 private:
  std::unique_ptr<SentenceLoss> loss_;
  SpladeOptions options_;
};

}  // namespace

SpladeOptions SpladeOptions::of(Json& given) {
  LossOptions read(given, "SpladeLoss");
  SpladeOptions options;
  const bool says = !read.value("document_regularizer_weight").is_null();
  options.document_weight = read.number_from_zero("document_regularizer_weight", options.document_weight);
  if (!read.value("query_regularizer_weight").is_null())
    options.query_weight = read.number_from_zero("query_regularizer_weight", 0);
  for (const char* name : {"document_regularizer", "query_regularizer"}) {
    const Json value = read.value(name);
    if (value != "FlopsLoss") read.only(name, nullptr);
  }
  options.document_threshold = read.count("document_regularizer_threshold");
  options.query_threshold = read.count("query_regularizer_threshold");
  options.documents_alone = read.flag("use_document_regularizer_only", false);
  if (options.documents_alone && options.query_weight)
    read.refuse("query_regularizer_weight", "none with use_document_regularizer_only");
  // Where nothing is said, the library's own weights.
  if (!says && !options.query_weight && !options.documents_alone) options.query_weight = 5e-5;
  options.linear = read.choice("scheduler_type", {"quadratic", "linear"}, "quadratic") == "linear";
  options.warmup_ratio = read.number_from_zero("warmup_ratio", options.warmup_ratio);
  if (options.warmup_ratio > 1) read.refuse("warmup_ratio", "a number from 0 to 1");
  if (given.is_object())
    for (const char* own : kSpladeOptions) given.erase(own);
  return options;
}

double SpladeOptions::share(int64_t step, int64_t steps) const {
  const int64_t growing = std::max<int64_t>(static_cast<int64_t>(static_cast<double>(steps) * warmup_ratio), 1);
  if (warmup_ratio == 0 || step >= growing) return 1;
  const double part = static_cast<double>(step) / static_cast<double>(growing);
  return linear ? part : part * part;
}

std::unique_ptr<SentenceLoss> splade_loss(std::unique_ptr<SentenceLoss> loss, const SpladeOptions& options) {
  return std::make_unique<Splade>(std::move(loss), options);
}

}  // namespace transom
