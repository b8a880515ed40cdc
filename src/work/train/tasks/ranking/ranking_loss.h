// SPDX-License-Identifier: Apache-2.0
// Losses of cross-encoders, by the names, options and defaults of sentence-transformers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transom/model.h"
#include "work/train/tasks/sentences/losses/loss_options.h"

namespace transom {

// B rows, of which each has a query and up to M documents.
struct RankingBatch {
  Tensor logits;  // f32 [B, M]; of kClasses [B, C]
  Tensor listed;  // f32 [B, M]: 1 where there is a document
  Tensor labels;  // f32 [B, W]; empty where the loss takes none. Of lists W is M, and what is not listed 0
  const ForwardContext& context;
};

// What a row of the file is.
enum class RankingForm {
  kScored,     // a query, a document, and a number
  kBinary,     // the same with a number from 0 to 1
  kClasses,    // two texts and a class
  kNegatives,  // a query, its document, and documents that do not answer it, or none
  kMargins,    // the same with a margin for each of these, or a score for each document
  kLists       // a query, a list of documents, and a list of as many numbers
};

class RankingLoss {
 public:
  virtual ~RankingLoss() = default;
  virtual Tensor operator()(const RankingBatch& batch) const = 0;  // f32 []
  // Of kNegatives: how many documents of other rows a query is compared with; nothing: all.
  virtual std::optional<int64_t> negatives_of_batch() const { return 0; }
};

struct RankingLossRecord {
  std::string_view name;
  RankingForm form;
  std::unique_ptr<RankingLoss> (*make)(LossOptions& options);
};

// Refuses a name that is none, with the nearest.
const RankingLossRecord& ranking_loss_named(const std::string& name);

}  // namespace transom
