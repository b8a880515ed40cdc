// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "graph/ops/rows/optimizer.h"
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// torch.optim.AdamW. What changes from step to step enters as scalars that are inputs of the graph.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerOptions& options) : options_(options) {}

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    return {{"exp_avg", parameter.value.type()}, {"exp_avg_sq", parameter.value.type()}};
  }

  void begin_step(int64_t step, double learning_rate) override {
    const auto t = static_cast<double>(step);
    const std::vector<Tensor> scalars =
        upload_scalars({learning_rate / (1 - std::pow(options_.beta1, t)),
                        1 / std::sqrt(1 - std::pow(options_.beta2, t)), 1 - learning_rate * options_.weight_decay, 1});
    step_size_ = scalars[0], correction_ = scalars[1], decay_ = scalars[2], no_decay_ = scalars[3];
  }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    const AdamWResult result =
        adamw_step(parameter.value, gradient, state[0], state[1], step_size_, parameter.decays ? decay_ : no_decay_,
                   correction_, {options_.beta1, options_.beta2, options_.epsilon});
    return {result.parameter, {result.first_moment, result.second_moment}};
  }

 private:
  OptimizerOptions options_;
  Tensor step_size_, correction_, decay_, no_decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options) { return std::make_unique<AdamW>(options); }

}  // namespace transom
