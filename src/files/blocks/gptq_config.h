// SPDX-License-Identifier: Apache-2.0
// quantization_config of GPTQ, which says what layers have codes where readers would not guess it.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

// `group` -1: whole columns. act_order: groups are those of a sorted order. `made` have codes; `kept` are modules of
// which some may be linear layers that have none. Transformers replaces all linear layers of the blocks whose name it
// knows; where that is not right, block_name_to_quantize and modules_in_block_to_quantize say so to it, and `dynamic`
// to GPTQModel and vLLM.
Json gptq_config_of(int bits, int64_t group, bool act_order, const std::vector<std::string>& made,
                    const std::vector<std::string>& kept);

}  // namespace transom
