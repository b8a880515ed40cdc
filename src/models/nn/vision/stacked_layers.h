// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transom/layers.h"

namespace transom {

// Linear layers behind one another with ReLU between them, `layers.0` and on: what detectors read boxes off with
// (Carion et al., 2020).
class StackedLayers {
 public:
  StackedLayers(const Scope& scope, int64_t width, int64_t out, int64_t count, double deviation)
      : StackedLayers(scope, width, width, out, count, deviation) {}
  StackedLayers(const Scope& scope, int64_t in, int64_t between, int64_t out, int64_t count, double deviation) {
    for (int64_t i = 0; i < count; ++i)
      layers_.emplace_back(scope / "layers" / i, i == 0 ? in : between, i + 1 < count ? between : out,
                           Linear::Options{.deviation = deviation});
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {  // [..., width] -> [..., out]
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i](x, context);
      if (i + 1 < layers_.size()) x = relu(x);
    }
    return x;
  }

 private:
  std::vector<Linear> layers_;
};

}  // namespace transom
