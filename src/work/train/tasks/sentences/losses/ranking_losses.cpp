// SPDX-License-Identifier: Apache-2.0
// Multiple negatives ranking (Henderson et al., "Efficient natural language response suggestion", 2017): a query's own
// document is told from those of the other rows of the batch, and from hard negatives in further columns.
#include <algorithm>

#include "base/error.h"
#include "graph/ops/movement/collectives.h"
#include "models/nn/losses/losses.h"
#include "transom/ops.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"
#include "work/train/tasks/sentences/losses/similarities.h"

namespace transom {
namespace {

enum class Hardness { kNone, kInBatch, kHard, kAll };

class MultipleNegativesRanking : public SentenceLoss {
 public:
  struct Options {
    double scale = 20;
    Closeness closeness = Closeness::kCosine;
    bool gather = false;
    bool query_to_query = false, doc_to_query = false, doc_to_doc = false;
    bool per_direction = false;
    Hardness hardness = Hardness::kNone;
    double hardness_strength = 0;
    int64_t mini_batch_size = 0;
  };
  explicit MultipleNegativesRanking(Options options) : options_(options) {}
  int64_t mini_batch_size() const override { return options_.mini_batch_size; }

  Tensor operator()(const VectorBatch& batch) const override {
    const int64_t rows = batch.columns[0].dim(0);
    std::vector<Tensor> columns = batch.columns;
    const bool gathers = options_.gather && batch.ranks > 1;
    if (gathers)
      for (size_t i = 0; i < columns.size(); ++i)
        columns[i] = all_gather(columns[i], batch.ranks, static_cast<int64_t>(i));
    const int64_t offset = gathers ? batch.rank * rows : 0;
    const std::vector<Tensor> scores = all_scores(batch, columns, offset);
    const Tensor right = iota({rows}, 0) + full({rows}, static_cast<double>(offset), DType::kInt64);
    const auto losses = [&](const Tensor& of) { return cross_entropy(of, right, kNoLabel, kAsGiven); };
    if (!options_.per_direction)
      return mean_of_all(losses(scores.size() == 1 ? scores[0] : concatenate(scores, 1)), batch.context);
    Tensor sum = losses(scores[0]);
    for (size_t i = 1; i < scores.size(); ++i) sum = sum + losses(scores[i]);
    return mean_of_all(sum / static_cast<double>(scores.size()), batch.context);
  }

 private:
  static constexpr int64_t kNoLabel = -100;

  // The scaled closeness of this process' rows to what each direction compares them with; the first one is from
  // queries to documents, of which the own one is at the row's number plus `offset`. `columns` are those of all.
  std::vector<Tensor> all_scores(const VectorBatch& batch, const std::vector<Tensor>& columns, int64_t offset) const {
    const int64_t rows = batch.columns[0].dim(0), all = columns[0].dim(0);
    const std::vector<Tensor> documents(columns.begin() + 1, columns.end());
    const auto count = static_cast<int64_t>(documents.size());
    const Tensor& queries = batch.columns[0];
    const Tensor& own = batch.columns[1];
    const Tensor every = documents.size() == 1 ? documents[0] : concatenate(documents, 0);
    const Tensor of_one = diagonal(rows, all, offset);
    const auto close = [&](const Tensor& a, const Tensor& b) { return closeness(a, b, options_.closeness); };
    // Of what is compared with itself nothing is learnt.
    const auto without = [&](const Tensor& scores, const Tensor& these) {
      return select(greater(these, zeros(these.shape())), full(scores.shape(), kMaskedScore), scores);
    };
    const auto repeated = [&] { return concatenate(std::vector<Tensor>(static_cast<size_t>(count), of_one), 1); };
    const Tensor forward = close(queries, every);
    std::vector<Tensor> scores{forward * options_.scale};
    if (options_.hardness != Hardness::kNone && options_.hardness_strength > 0) {
      const Tensor ours = repeated();
      const Tensor hard =
          cast(greater_equal(iota(ours.shape(), 1), full(ours.shape(), static_cast<double>(all), DType::kInt64)),
               DType::kFloat32);
      const Tensor counted = options_.hardness == Hardness::kHard      ? ours * hard
                             : options_.hardness == Hardness::kInBatch ? 1 - ours
                                                                       : 1 - ours * (1 - hard);
      scores[0] = scores[0] + forward.detach() * counted * options_.hardness_strength;
    }
    if (options_.query_to_query) scores.push_back(without(close(queries, columns[0]) * options_.scale, of_one));
    if (options_.doc_to_query) scores.push_back(close(own, columns[0]) * options_.scale);
    if (options_.doc_to_doc) scores.push_back(without(close(own, every) * options_.scale, repeated()));
    return scores;
  }

  Options options_;
};

MultipleNegativesRanking::Options ranking_options(LossOptions& given, bool symmetric) {
  MultipleNegativesRanking::Options options;
  options.scale = given.number_above_zero("scale", 20);
  options.closeness = given.choice("similarity_fct", {"cos_sim", "dot_score"}, "cos_sim") == "cos_sim"
                          ? Closeness::kCosine
                          : Closeness::kDot;
  options.gather = given.flag("gather_across_devices", false);
  if (symmetric) {
    options.doc_to_query = options.per_direction = true;
    return options;
  }
  const std::vector<std::string> directions =
      given.choices("directions", {"query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"}, {"query_to_doc"});
  const auto has = [&](const char* name) {
    return std::find(directions.begin(), directions.end(), name) != directions.end();
  };
  if (!has("query_to_doc")) given.refuse("directions", "query_to_doc among them, which has the positive pair");
  options.query_to_query = has("query_to_query"), options.doc_to_query = has("doc_to_query");
  options.doc_to_doc = has("doc_to_doc");
  options.per_direction = given.choice("partition_mode", {"joint", "per_direction"}, "joint") == "per_direction";
  if (options.per_direction && (options.query_to_query || options.doc_to_doc))
    given.refuse("partition_mode", "joint with query_to_query or doc_to_doc, which have no positive pair");
  const std::string mode = given.choice("hardness_mode", {"in_batch_negatives", "hard_negatives", "all_negatives"}, "");
  options.hardness = mode.empty()                   ? Hardness::kNone
                     : mode == "in_batch_negatives" ? Hardness::kInBatch
                     : mode == "hard_negatives"     ? Hardness::kHard
                                                    : Hardness::kAll;
  options.hardness_strength = given.number_from_zero("hardness_strength", 0);
  if ((options.hardness == Hardness::kNone) != (options.hardness_strength == 0))
    given.refuse("hardness_strength", "a number above 0 with a hardness_mode, and none without");
  return options;
}

template <bool symmetric, bool cached>
std::unique_ptr<SentenceLoss> make_ranking(LossOptions& given, int64_t /*width*/, int64_t /*seed*/) {
  MultipleNegativesRanking::Options options = ranking_options(given, symmetric);
  if (cached) {
    options.mini_batch_size = given.count("mini_batch_size").value_or(32);
    given.only("mini_batch_num_tokens", nullptr);
    given.only("show_progress_bar", false);
  }
  return std::make_unique<MultipleNegativesRanking>(options);
}

constexpr size_t kAnyColumns = 64;

constexpr SentenceLossRecord kRankingLosses[] = {
    {"MultipleNegativesRankingLoss", 2, kAnyColumns, SentenceLabels::kNone, make_ranking<false, false>},
    {"MultipleNegativesSymmetricRankingLoss", 2, kAnyColumns, SentenceLabels::kNone, make_ranking<true, false>},
    {"CachedMultipleNegativesRankingLoss", 2, kAnyColumns, SentenceLabels::kNone, make_ranking<false, true>},
    {"CachedMultipleNegativesSymmetricRankingLoss", 2, kAnyColumns, SentenceLabels::kNone, make_ranking<true, true>},
};
const RegisterSentenceLosses kRegisterRankingLosses(kRankingLosses);

}  // namespace
}  // namespace transom
