// SPDX-License-Identifier: Apache-2.0
// What evaluations of sentence vectors measure, by the names of sentence-transformers' evaluators and of their metrics.
#pragma once

#include <string>
#include <vector>

#include "models/sentences/sentence_modules.h"
#include "transom/trainer.h"

namespace transom {

// Vectors of rows, each as long as the others.
struct VectorRows {
  int64_t rows = 0, width = 0;
  std::vector<float> values;
  std::vector<float> row(int64_t index) const {
    return {values.begin() + index * width, values.begin() + (index + 1) * width};
  }
};

// EmbeddingSimilarityEvaluator: how far the closeness of pairs goes with their scores: pearson_cosine, spearman_cosine.
Metrics similarity_metrics(const VectorRows& first, const VectorRows& second, const std::vector<float>& scores,
                           Similarity similarity);
// TripletEvaluator: how many anchors are closer to their positive than to their negative: cosine_accuracy.
Metrics triplet_metrics(const VectorRows& anchors, const VectorRows& positives, const VectorRows& negatives,
                        Similarity similarity);
// InformationRetrievalEvaluator: cosine_accuracy@1 ... cosine_ndcg@10, cosine_mrr@10, cosine_map@100. `relevant`: which
// documents answer each query. Documents of equal closeness come as they stand.
Metrics retrieval_metrics(const VectorRows& queries, const VectorRows& documents,
                          const std::vector<std::vector<int64_t>>& relevant, Similarity similarity);

}  // namespace transom
