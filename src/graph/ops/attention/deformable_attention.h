// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// The maps that places are on, one number each for every map, and how many places of each a query looks at.
struct DeformableMaps {
  Axes heights, widths;
  int64_t points = 1;
  bool nearest = false;  // takes the value at the nearest place of the map, and none that lies between
};

// Multi-scale deformable attention (Zhu et al., 2021). values [B, S, H, d], the places of all maps behind each other,
// S = sum of height width; places [B, Q, H, maps points, 2], (x, y) in parts of a map, map by map; weights [B, Q, H,
// maps points]. The two are f32, or f64 as the values are. -> [B, Q, H, d]: the sum of the weighted values there,
// bilinearly between the centres of the map's places, and 0 beyond its edges.
Tensor deformable_attention(const Tensor& values, const Tensor& places, const Tensor& weights,
                            const DeformableMaps& maps);

}  // namespace transom
