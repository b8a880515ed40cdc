// SPDX-License-Identifier: Apache-2.0
// One maker for each optimizer; optimizers.cpp holds their names.
#pragma once

#include <map>

#include "optim/optimizer.h"

namespace transom {

using Settings = std::map<std::string, std::string>;  // of optim_args

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, double momentum, bool nesterov);
std::unique_ptr<Optimizer> make_adafactor(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options, double epsilon);

}  // namespace transom
