// SPDX-License-Identifier: Apache-2.0
// What the classes of a family say of their parameters, asked without making any: which names hold one tensor, and
// which belong to the body that all heads stand on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/family.h"

namespace transom {

// The names under which a checkpoint may hold a parameter: with and without the name of the body before it, and those
// of older versions of torch and Transformers.
std::vector<std::string> names_in_checkpoints(const std::string& parameter, const Family& family);

// Pairs of names of one tensor, in whichever class of the family has both: a table of tokens and the head of the class
// for text. `checkpoint` says what is there, which some classes go by.
std::vector<std::pair<std::string, std::string>> tied_names(const Family& family, const Config& config,
                                                            const ParameterSource& checkpoint);

// Those of a model's `parameters` that belong to its body, and not to the head that its task has put on it. A pooler is
// a part of the head here: checkpoints that learnt to fill masks have none.
std::vector<std::string> parameters_of_body(const Model& model, const std::vector<std::string>& parameters);

}  // namespace transom
