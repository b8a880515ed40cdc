// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/model.h"
#include "transom/ops.h"

namespace transom {

// Sees what the linear layers of its thread read while it lives: calibration of quantised weights. In eager mode the
// inputs are computed by then, and a value that before() gives the weight's parameter is the one that is multiplied.
class LinearObserver {
 public:
  LinearObserver();
  virtual ~LinearObserver();
  LinearObserver(const LinearObserver&) = delete;
  LinearObserver& operator=(const LinearObserver&) = delete;

  // Before the product of x [..., K] with this weight.
  virtual void before(const Tensor& x, const Parameter& weight) = 0;

  // Before a convolution of images x [N, C, spatial...] with this weight.
  virtual void before_convolution(const Tensor& x, const Parameter& weight, const ConvolutionOptions& options);

  static LinearObserver* active();  // the innermost one, or null

 private:
  LinearObserver* outer_;
};

}  // namespace transom
