// SPDX-License-Identifier: Apache-2.0
// Losses of lists of documents.
#pragma once

#include <memory>

#include "work/train/tasks/ranking/ranking_loss.h"

namespace transom {

// Wang et al., "The LambdaLoss framework for ranking metric optimization" (2018).
std::unique_ptr<RankingLoss> make_lambda_loss(LossOptions& options);
// Burges et al., "Learning to rank using gradient descent" (2005).
std::unique_ptr<RankingLoss> make_rank_net_loss(LossOptions& options);
// Cao et al., "Learning to rank: from pairwise approach to listwise approach" (2007).
std::unique_ptr<RankingLoss> make_list_net_loss(LossOptions& options);
// Schlatt et al., "Rank-DistiLLM" (2025): ADR-MSE.
std::unique_ptr<RankingLoss> make_rank_distance_loss(LossOptions& options);
// Xia et al., "Listwise approach to learning to rank" (2008); with weights by position Lan et al. (2014).
std::unique_ptr<RankingLoss> make_list_mle_loss(LossOptions& options);
std::unique_ptr<RankingLoss> make_position_list_mle_loss(LossOptions& options);

}  // namespace transom
