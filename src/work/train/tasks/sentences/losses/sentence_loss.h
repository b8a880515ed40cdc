// SPDX-License-Identifier: Apache-2.0
// Losses of the vectors of texts, by the names, options and defaults of sentence-transformers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transom/model.h"
#include "work/train/tasks/sentences/losses/loss_options.h"

namespace transom {

// The vectors of a batch of B rows, and what its pass is computed under.
struct VectorBatch {
  std::vector<Tensor> columns;  // of each column of texts, f32 [B, D]
  Tensor labels;                // f32 or i64 [B], f32 [B, N]; empty where the loss takes none
  const ForwardContext& context;
  int64_t rank = 0, ranks = 1;    // whose rows gather_across_devices puts together
  Tensor share = {};              // f32 [], of what grows in the course of a run; undefined: all of it
  NamedTensors* terms = nullptr;  // where it is set, receives the terms of a loss of several, without gradients
};

// Shared by threads; parameters are trained by one.
class SentenceLoss {
 public:
  virtual ~SentenceLoss() = default;
  // f32 []. Means over rows are those of mean_of_all (models/nn/losses).
  virtual Tensor operator()(const VectorBatch& batch) const = 0;
  // Its own weights, named "loss.classifier.weight".
  virtual std::vector<std::shared_ptr<Parameter>> parameters() const { return {}; }
  // The rows whose vectors are computed together where activations of all do not fit (GradCache); 0: of all.
  virtual int64_t mini_batch_size() const { return 0; }
};

enum class SentenceLabels {
  kNone,
  kScore,       // a number
  kBinary,      // 0 or 1
  kClass,       // a whole number from 0
  kVector,      // the vector to give: as many numbers as the model's have
  kMargins,     // of each negative how much closer the positive is, or the closeness of each
  kMaybeBinary  // 0 or 1, or nothing
};

// One row for each loss.
struct SentenceLossRecord {
  std::string_view name;
  size_t least_columns = 2, most_columns = 2;  // of texts
  SentenceLabels labels = SentenceLabels::kNone;
  // Makes it of its options, for vectors of so many numbers; `seed` is that of its new weights.
  std::unique_ptr<SentenceLoss> (*make)(LossOptions& options, int64_t width, int64_t seed) = nullptr;
};

// Sorted by name.
std::vector<const SentenceLossRecord*> sentence_losses();
// Refuses a name that is none, with the nearest.
const SentenceLossRecord& sentence_loss_named(const std::string& name);

// A loss of a folder's file registers itself.
class RegisterSentenceLosses {
 public:
  explicit RegisterSentenceLosses(std::span<const SentenceLossRecord> records);
};

// The margins [rows, negatives] of labels that give them, or that give the scores of positive and negatives. Throws
// where labels have another width.
Tensor margins_of_labels(const Tensor& labels, int64_t rows, int64_t negatives);

// Kusupati et al., "Matryoshka Representation Learning" (2022): the loss of the first `dims[i]` numbers of the vectors,
// at length 1, times weights[i], and the sum of these. Refuses dims that are not in [1, width].
std::unique_ptr<SentenceLoss> matryoshka_loss(std::unique_ptr<SentenceLoss> loss, std::vector<int64_t> dims,
                                              std::vector<double> weights, int64_t width);

// Formal et al., "From distillation to hard negative sampling" (2022): a loss of weights of tokens, and the squares of
// the mean weights of queries and documents (Paria et al., "Minimizing FLOPs to learn efficient sparse
// representations", 2020), which make most of them 0. As SpladeLoss of sentence-transformers.
struct SpladeOptions {
  double document_weight = 3e-5;
  std::optional<double> query_weight;                          // empty: queries are not held to few weights
  std::optional<int64_t> document_threshold, query_threshold;  // texts with no more weights than that do not count
  bool documents_alone = false;                                // all columns are documents
  // The weights grow from 0 in this part of a run, by the square of the steps or linearly.
  double warmup_ratio = 1.0 / 3;
  bool linear = false;

  // Takes its own options out of `given`, and leaves those of the loss within.
  static SpladeOptions of(Json& given);
  // Of an update, whose number is counted from 0, of so many: how much of the weights counts.
  double share(int64_t step, int64_t steps) const;
};
std::unique_ptr<SentenceLoss> splade_loss(std::unique_ptr<SentenceLoss> loss, const SpladeOptions& options);

}  // namespace transom
