// SPDX-License-Identifier: Apache-2.0
// Pictures of any form and size as rows of patches (NaFlex of SigLIP 2, Tschannen et al., 2025; Dehghani et al., 2023).
// B pictures, P patches of one, D hidden.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/layers.h"
#include "transom/model.h"

namespace transom {

struct SiglipVisionConfig;

class SiglipPatches {
 public:
  SiglipPatches(const Scope& scope, const SiglipVisionConfig& c);
  static std::vector<std::string> input_names();
  // pixel_values [B, P, numbers of a patch], spatial_shapes i64 [B, 2]: rows and columns of the patches, which are the
  // first ones; without it they are squares. -> [B, P, D]
  Tensor operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor shapes_of(const NamedTensors& inputs, const Tensor& pixels) const;
  Tensor positions(const Tensor& shapes, int64_t count, const ForwardContext& context) const;

  int64_t numbers_, side_;  // of a patch; of the square grid that positions are made for
  Linear patch_embedding_;
  std::shared_ptr<Parameter> position_embedding_;
};

}  // namespace transom
