// SPDX-License-Identifier: Apache-2.0
// The order in which PyTorch lists the parameters of a Transformers model (named_parameters), by which the states of
// its optimizers are numbered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom {

// The positions of `names` (of a model of this model_type) in that order: a module's own parameters stand before those
// of its parts, and parts in the order in which Transformers makes them. `body_first`: as versions before 5 made those
// models whose heads now come before the body.
std::vector<size_t> torch_order(const std::vector<std::string>& names, std::string_view model_type,
                                bool body_first = false);

}  // namespace transom
