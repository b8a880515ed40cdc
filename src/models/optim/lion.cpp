// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Lion (Chen et al., 2023): the sign of a momentum that looks one gradient ahead, with decoupled weight decay.
class Lion : public Optimizer {
 public:
  explicit Lion(const OptimizerOptions& options) : options_(options) {}

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    return {{"exp_avg", parameter.value.type()}};
  }

  void begin_step(int64_t, double learning_rate) override {
    const std::vector<Tensor> scalars = upload_scalars({learning_rate, 1 - learning_rate * options_.weight_decay});
    learning_rate_ = scalars[0], decay_ = scalars[1];
  }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    const Tensor direction = sign(state[0] * options_.beta1 + gradient * (1 - options_.beta1));
    const Tensor decayed = parameter.decays ? parameter.value * decay_ : parameter.value;
    return {decayed - direction * learning_rate_, {state[0] * options_.beta2 + gradient * (1 - options_.beta2)}};
  }

 private:
  OptimizerOptions options_;
  Tensor learning_rate_, decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const OptimizerOptions& options) { return std::make_unique<Lion>(options); }

}  // namespace transom
