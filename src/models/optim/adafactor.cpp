// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr double kSquareEpsilon = 1e-30;
constexpr double kClipThreshold = 1.0;
constexpr double kDecayRate = -0.8;

// Adafactor (Shazeer and Stern, 2018) as Trainer sets it: no relative step, no scaling by the parameter, no first
// moment. Of matrices only the row and column means of the squared gradients are kept.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const OptimizerOptions& options) : weight_decay_(options.weight_decay) {}

 protected:
  std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const override {
    const Shape& shape = parameter.value.shape();
    if (shape.size() < 2) return {{"exp_avg_sq", {DType::kFloat32, shape}}};
    const Shape rows(shape.begin(), shape.end() - 1);
    Shape columns(shape.begin(), shape.end() - 2);
    columns.push_back(shape.back());
    return {{"exp_avg_sq_row", {DType::kFloat32, rows}}, {"exp_avg_sq_col", {DType::kFloat32, columns}}};
  }

  void begin_step(int64_t step, double learning_rate) override {
    const double keep = 1 - std::pow(static_cast<double>(step), kDecayRate);
    const std::vector<Tensor> scalars = upload_scalars({learning_rate, keep, 1 - keep});
    learning_rate_ = scalars[0], keep_ = scalars[1], take_ = scalars[2];
  }

  Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                const std::vector<Tensor>& state) override {
    const Tensor square = gradient * gradient + kSquareEpsilon;
    Tensor step;
    std::vector<Tensor> next;
    if (parameter.value.rank() < 2) {
      next = {state[0] * keep_ + square * take_};
      step = rsqrt(next[0]) * gradient;
    } else {
      next = {state[0] * keep_ + mean(square, {-1}) * take_, state[1] * keep_ + mean(square, {-2}) * take_};
      const Tensor row = unsqueeze(rsqrt(next[0] / mean(next[0], {-1}, true)), -1);
      const Tensor column = unsqueeze(rsqrt(next[1]), -2);
      step = row * column * gradient;
    }
    const Tensor root_mean_square = sqrt(sum(step * step) * (1.0 / static_cast<double>(step.size())));
    step = step / maximum(root_mean_square * (1 / kClipThreshold), constant(1)) * learning_rate_;
    Tensor value = parameter.value;
    if (weight_decay_ != 0 && parameter.decays) value = value - value * (learning_rate_ * weight_decay_);
    return {value - step, next};
  }

 private:
  double weight_decay_;
  Tensor learning_rate_, keep_, take_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const OptimizerOptions& options) {
  return std::make_unique<Adafactor>(options);
}

}  // namespace transom
