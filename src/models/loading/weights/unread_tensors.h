// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint that no parameter of the model asked for: which of them would change what it computes.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint/checkpoint.h"

namespace transom {

// What older versions of Transformers stored beside the parameters, and newer ones compute: positions, causal masks,
// rotary frequencies.
bool is_computed_buffer(std::string_view name);

// An error where a tensor of `unread` belongs to what the model computes with tensors of `used`: a bias that is not
// zero beside the weight of its layer, and in files of which each tensor counts (Checkpoint::is_all_read) any tensor of
// a layer or module that is read otherwise. `model_type` is for the message.
void expect_nothing_left_out(const Checkpoint& checkpoint, const std::vector<std::string>& unread,
                             const std::set<std::string>& used, std::string_view model_type);

}  // namespace transom
