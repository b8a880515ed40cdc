// SPDX-License-Identifier: Apache-2.0
// Who computes what a model's passes give, where that is not this process alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transom/tensor.h"

namespace transom {

// Of a model that is spread over processes. The same calls in the same order on all of them, for one thread.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Computes `outputs`, as eval() does. Gives tensors in place of `state`, computed as well, which only later passes
  // read; each process may have but a part of them. The state of the call before is let go.
  virtual std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) = 0;
  // Whether this process chooses for all of them what they compute next; one of them does.
  virtual bool leads() const { return true; }
  // What the process that leads gives, on all of them, which call this together; the others give anything.
  virtual std::string from_leader(const std::string& mine) { return mine; }
};

// While it lives, passes that this thread begins are computed by the evaluator.
class EvaluatorScope {
 public:
  explicit EvaluatorScope(Evaluator* evaluator);
  ~EvaluatorScope();
  EvaluatorScope(const EvaluatorScope&) = delete;
  EvaluatorScope& operator=(const EvaluatorScope&) = delete;

  // The innermost one of this thread; null: eval() computes.
  static Evaluator* current();

 private:
  Evaluator* before_;
};

}  // namespace transom
