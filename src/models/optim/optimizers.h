// SPDX-License-Identifier: Apache-2.0
// One maker for each optimizer; optimizers.cpp holds their names.
#pragma once

#include <initializer_list>
#include <map>

#include "models/optim/optimizer.h"

namespace transom {

using Settings = std::map<std::string, std::string>;  // of optim_args

// The numbers of one step as scalars of the graph, f32 []. They lie in one buffer, which is one upload.
std::vector<Tensor> upload_scalars(std::initializer_list<double> values);

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options);
struct SgdOptions {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, const SgdOptions& own);
std::unique_ptr<Optimizer> make_adafactor(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options, double epsilon, double learning_rate_decay);
struct RmsPropOptions {
  double alpha = 0.99, epsilon = 1e-8, momentum = 0;
  bool centered = false;
};
std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options, const RmsPropOptions& own);
std::unique_ptr<Optimizer> make_lion(const OptimizerOptions& options);

}  // namespace transom
