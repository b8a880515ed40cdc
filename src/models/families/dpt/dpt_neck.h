// SPDX-License-Identifier: Apache-2.0
// What DPT (Ranftl et al., 2021) makes of the states of several layers: maps of several resolutions, fused from the
// coarsest on. B batch, C channels, h x w patches, D hidden.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/nn/vision/upsampling.h"
#include "models/shared/vision_inputs.h"

namespace transom {

// How the first token, which stands for the whole picture, reaches the others: not at all, by its sum with each, or by
// a layer that reads both.
enum class DPTReadout { kIgnore, kAdd, kProject };

struct DPTNeckShape {
  int64_t states;               // D
  std::vector<int64_t> widths;  // of the maps, one a layer
  std::vector<double> factors;  // by which the maps are larger than the patches
  int64_t fused;                // channels of what is fused
  double deviation = 0.02;      // of new weights
  DPTReadout readout = DPTReadout::kIgnore;
  std::string activation = "gelu";  // of the layer that reads both
  bool norms = false, bias = true;  // of the residual layers
  bool doubles = false;             // what is fused becomes twice as large, rather than as large as the next map
};

// neck_hidden_sizes, reassemble_factors and fusion_hidden_size, checked.
DPTNeckShape dpt_neck_shape(const Config& config, const std::vector<int64_t>& widths, int64_t fused);
// Which of the maps head_in_index is, of so many.
size_t dpt_head_map(const Config& config, size_t maps);

class DPTReassemble;
class DPTFusion;

class DPTNeck {
 public:
  DPTNeck(const Scope& scope, const DPTNeckShape& shape);
  ~DPTNeck();
  DPTNeck(DPTNeck&&) noexcept;
  // States [B, 1 + h w, D] of as many layers as there are widths -> the maps of all stages of the fusion, the coarsest
  // first.
  std::vector<Tensor> operator()(const std::vector<Tensor>& states, Extents grid, ForwardContext& context) const;

 private:
  bool doubles_;
  std::vector<DPTReassemble> reassemble_;
  std::vector<Convolution> convs_;
  std::vector<DPTFusion> fusion_;
};

// A square window in the middle of its padding.
Convolution::Options dpt_window(double deviation, int64_t extent, bool bias = true);

}  // namespace transom
