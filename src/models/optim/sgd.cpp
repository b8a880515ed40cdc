// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// torch.optim.SGD: weight decay is part of the gradient. The first step of the momentum buffer is the gradient itself,
// which a buffer of zeros gives as well.
class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const SgdOptions& own)
      : weight_decay_(options.weight_decay),
        momentum_(own.momentum),
        dampening_(own.dampening),
        nesterov_(own.nesterov) {}

  bool takes_rows() const override { return momentum_ == 0 && weight_decay_ == 0; }

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    if (momentum_ == 0) return {};
    return {{"momentum_buffer", parameter.value.type()}};
  }

  void begin_step(int64_t step, double learning_rate) override {
    const std::vector<Tensor> scalars = dampening_ == 0
                                            ? upload_scalars({learning_rate})
                                            : upload_scalars({learning_rate, step == 1 ? 1 : 1 - dampening_});
    learning_rate_ = scalars.front(), part_ = scalars.back();
  }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    Tensor g = gradient;
    if (weight_decay_ != 0 && parameter.decays) g = g + parameter.value * weight_decay_;
    if (momentum_ == 0) return {parameter.value - g * learning_rate_, {}};
    const Tensor buffer = state[0] * momentum_ + (dampening_ != 0 ? g * part_ : g);
    return {parameter.value - (nesterov_ ? g + buffer * momentum_ : buffer) * learning_rate_, {buffer}};
  }

  Update update_rows(const OptimizedParameter& parameter, const RowGradient& gradient,
                     const std::vector<Tensor>&) override {
    return {scatter_add(parameter.value, gradient.indices, -(gradient.rows * learning_rate_), 0), {}};
  }

 private:
  double weight_decay_, momentum_, dampening_;
  bool nesterov_;
  Tensor learning_rate_, part_;  // of the gradient that goes into the momentum
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, const SgdOptions& own) {
  return std::make_unique<Sgd>(options, own);
}

}  // namespace transom
