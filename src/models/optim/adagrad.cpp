// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// torch.optim.Adagrad (Duchi et al., 2011).
class Adagrad : public Optimizer {
 public:
  Adagrad(const OptimizerOptions& options, double epsilon, double learning_rate_decay)
      : weight_decay_(options.weight_decay), epsilon_(epsilon), learning_rate_decay_(learning_rate_decay) {}

  bool takes_rows() const override { return weight_decay_ == 0; }

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    return {{"sum", parameter.value.type()}};
  }

  void begin_step(int64_t step, double learning_rate) override {
    learning_rate_ = Tensor::scalar(learning_rate / (1 + static_cast<double>(step - 1) * learning_rate_decay_));
  }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    Tensor g = gradient;
    if (weight_decay_ != 0 && parameter.decays) g = g + parameter.value * weight_decay_;
    const Tensor total = state[0] + g * g;
    return {parameter.value - g / (sqrt(total) + epsilon_) * learning_rate_, {total}};
  }

  Update update_rows(const OptimizedParameter& parameter, const RowGradient& gradient,
                     const std::vector<Tensor>& state) override {
    const Tensor &g = gradient.rows, &indices = gradient.indices;
    const Tensor total = scatter_add(state[0], indices, g * g, 0);
    const Tensor step = g / (sqrt(gather(total, indices, 0)) + epsilon_) * learning_rate_;
    return {scatter_add(parameter.value, indices, -step, 0), {total}};
  }

 private:
  double weight_decay_, epsilon_, learning_rate_decay_;
  Tensor learning_rate_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options, double epsilon, double learning_rate_decay) {
  return std::make_unique<Adagrad>(options, epsilon, learning_rate_decay);
}

}  // namespace transom
