// SPDX-License-Identifier: Apache-2.0
// Optimizers: from parameters, gradients and their own state, the next parameters and state. Nothing is changed in
// place; the new values are graph nodes that run with the rest of the step, and take over the memory of the old ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transom/model.h"
#include "transom/tensor.h"

namespace transom {

struct OptimizerOptions {
  // TrainingArguments::optim: "adamw_torch" (AdamW of PyTorch), "sgd", "adagrad", "rmsprop", "adafactor", "lion_32bit".
  std::string name = "adamw_torch";
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  std::string settings;  // TrainingArguments::optim_args, "momentum=0.9,nesterov=true"
};

// One tensor that is trained.
struct OptimizedParameter {
  std::string name;
  Tensor value;
  bool decays = true;  // false: bias and norm weights, which weight decay spares
};

// The gradient of a table of which few rows were used, without the rest of it. Places that are left over have rows of
// zeros, at the index 0.
struct RowGradient {
  Tensor indices;  // i64 [N], each row of the table once
  Tensor rows;     // [N, D]
};

// minimize(), below, takes whole steps with it; a class derived from this is an optimizer of your own. For one thread
// at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The parameters after one update with these gradients; the state moves on with them. `learning_rate` enters the
  // graph as an input. Where takes_rows(), the gradient of a table may stand in `by_rows`, by the parameter's number.
  // `applies`: bool [], or empty: if it turns out false, all values are those of before; who reads it then calls
  // restore() for the number of steps.
  std::vector<Tensor> step(const std::vector<OptimizedParameter>& parameters, const std::vector<Tensor>& gradients,
                           double learning_rate, const std::map<size_t, RowGradient>& by_rows = {},
                           const Tensor& applies = {});
  // The names and types of the state that these parameters have, in its order.
  std::vector<std::pair<std::string, Type>> state_layout(const std::vector<OptimizedParameter>& parameters) const;
  // Makes the state of before the first step, zeros, if there is none; step() does so by itself.
  void initialise(const std::vector<OptimizedParameter>& parameters);
  // Whether rows without a gradient stay as they are, so that an update need not touch them: as torch.optim.SGD and
  // Adagrad do for sparse gradients.
  virtual bool takes_rows() const { return false; }

  // Everything that a resumed run needs, by names such as "exp_avg.<parameter>"; to be evaluated along with the
  // parameters.
  const std::vector<std::pair<std::string, Tensor>>& state() const { return state_; }
  int64_t steps() const { return steps_; }
  // Takes over a saved state; an error names what is missing or has another shape.
  void load(int64_t steps, std::vector<std::pair<std::string, Tensor>> state,
            const std::vector<OptimizedParameter>& parameters);
  // Takes back updates: the steps and the state are what steps() and state() were.
  void restore(int64_t steps, std::vector<std::pair<std::string, Tensor>> state) {
    steps_ = steps;
    state_ = std::move(state);
  }

 protected:
  struct Update {
    Tensor parameter;
    std::vector<Tensor> state;
  };
  // The names of a parameter's state tensors, and their values before the first step.
  virtual std::vector<std::pair<std::string, Type>> state_types(const OptimizedParameter& parameter) const = 0;
  virtual void begin_step(int64_t step, double learning_rate) = 0;
  virtual Update update(const OptimizedParameter& parameter, const Tensor& gradient,
                        const std::vector<Tensor>& state) = 0;
  virtual Update update_rows(const OptimizedParameter& parameter, const RowGradient& gradient,
                             const std::vector<Tensor>& state);

 private:
  static void keep_unless(const Tensor& applies, const Tensor& parameter, const std::vector<Tensor>& state,
                          Update& update);
  std::vector<std::pair<std::string, Tensor>> initial_state(const std::vector<OptimizedParameter>& parameters) const;

  int64_t steps_ = 0;
  std::vector<std::pair<std::string, Tensor>> state_;
};

// Refuses unknown names and settings with the known ones.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

struct MinimizeOptions {
  double learning_rate = 1e-3;
  double max_grad_norm = 0;  // gradients are scaled so that their norm is at most this; 0: never
  uint64_t seed = 42;        // of dropout
  // Which parameters weight decay applies to; empty: to all, as torch.optim does.
  std::function<bool(const Parameter&)> decays;
};

// One step of training: computes the loss, its gradients by the parameters that require them, and the update, in one
// program. Returns the loss before the update, f32 [], computed. `loss` is called once. It gets the context of a
// forward pass in training, with the key of dropout, for layers that take one; running statistics that layers update
// through it are stored. It must not keep tensors that depend on the parameters: their memory is what the update takes.
// A step that fails leaves parameters, statistics and optimizer as they were. The parameters are f32 and on the device
// in use.
Tensor minimize(const std::function<Tensor(ForwardContext& context)>& loss,
                const std::vector<std::shared_ptr<Parameter>>& parameters, Optimizer& optimizer,
                const MinimizeOptions& options = {});

// The norm of all gradients together, f32 [].
Tensor global_norm(const std::vector<Tensor>& gradients);
// Scaled so that their norm is at most `maximum`, as torch.nn.utils.clip_grad_norm_ does.
std::vector<Tensor> clip_by_norm(const std::vector<Tensor>& gradients, const Tensor& norm, double maximum);

}  // namespace transom
