// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// torch.optim.RMSprop (Hinton's lecture 6; centered: Graves, 2013). Weight decay is part of the gradient.
class RmsProp : public Optimizer {
 public:
  RmsProp(const OptimizerOptions& options, const RmsPropOptions& own)
      : weight_decay_(options.weight_decay), own_(own) {}

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    std::vector<std::pair<std::string, Type>> types = {{"square_avg", parameter.value.type()}};
    if (own_.momentum > 0) types.emplace_back("momentum_buffer", parameter.value.type());
    if (own_.centered) types.emplace_back("grad_avg", parameter.value.type());
    return types;
  }

  void begin_step(int64_t, double learning_rate) override { learning_rate_ = Tensor::scalar(learning_rate); }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    Tensor g = gradient;
    if (weight_decay_ != 0 && parameter.decays) g = g + parameter.value * weight_decay_;
    const Tensor squares = state[0] * own_.alpha + g * g * (1 - own_.alpha);
    Update next{{}, {squares}};
    Tensor variance = squares, mean;
    if (own_.centered) {
      mean = state.back() + (g - state.back()) * (1 - own_.alpha);
      variance = squares - mean * mean;
    }
    Tensor step = g / (sqrt(variance) + own_.epsilon);
    if (own_.momentum > 0) next.state.push_back(step = state[1] * own_.momentum + step);
    if (own_.centered) next.state.push_back(mean);
    next.parameter = parameter.value - step * learning_rate_;
    return next;
  }

 private:
  double weight_decay_;
  RmsPropOptions own_;
  Tensor learning_rate_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options, const RmsPropOptions& own) {
  return std::make_unique<RmsProp>(options, own);
}

}  // namespace transom
