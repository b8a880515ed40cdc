// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "files/config/config.h"
#include "models/sharding/placement.h"
#include "transom/model.h"

namespace transom {

// Where tensor parallelism puts a parameter, by the styles of Transformers' base_model_tp_plan: the matrices that begin
// a block are cut by columns of their outputs (colwise), those that end it by rows of their inputs (rowwise); heads of
// attention are never cut apart. Layers that stand joined in one (queries, keys and values) are cut each by itself, and
// adapters as their layer. Parameters that no line of the plan names, and those with too few heads or columns, are
// whole. Experts are cut so along the axis ep where there is one.
Placement tensor_parallel_placement(const ProcessMesh& mesh, const Config& config, const Parameter& parameter);

}  // namespace transom
