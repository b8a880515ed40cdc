// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/scope.h"
#include "transom/ops.h"

namespace transom {

// Root mean square norm with a scale: [..., D] -> [..., D].
class RmsNorm {
 public:
  // from_one: the weight is what the scale has above 1, as in Gemma.
  RmsNorm(const Scope& scope, int64_t width, double epsilon, bool from_one = false)
      : path_(scope.path()),
        weight_(scope.parameter("weight", {width}, from_one ? Initial::zeros() : Initial::ones())),
        epsilon_(epsilon),
        from_one_(from_one) {}
  Tensor operator()(const Tensor& x) const {
    const ModuleScope module(path_);
    return rms_norm(x, from_one_ ? weight_->value + 1.0 : weight_->value, epsilon_);
  }

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_;
  double epsilon_;
  bool from_one_;
};

}  // namespace transom
