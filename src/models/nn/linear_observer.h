// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/model.h"
#include "transom/ops.h"

namespace transom {

// As Computing::observer it sees what linear layers read: calibration of quantised weights. In eager mode the inputs
// are computed by then, and a value that before() gives the weight's parameter is the one that is multiplied.
class LinearObserver {
 public:
  virtual ~LinearObserver() = default;

  // Before the product of x [..., K] with this weight.
  virtual void before(const Tensor& x, const Parameter& weight, const Computing& computing) = 0;

  // Before a convolution of images x [N, C, spatial...] with this weight.
  virtual void before_convolution(const Tensor& /*x*/, const Parameter& /*weight*/,
                                  const ConvolutionOptions& /*options*/, const Computing& /*computing*/) {}
};

}  // namespace transom
