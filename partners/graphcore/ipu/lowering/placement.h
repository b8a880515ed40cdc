// SPDX-License-Identifier: Apache-2.0
// Which IPU of a replica computes which node: encoder and decoder layers by `layers_per_ipu`, others where the largest
// of what they read lies. So embeddings are on the first one, heads on the last one, and a head whose weight is the
// embeddings' is where these are.
#pragma once

#include <string_view>
#include <vector>

#include "ipu/device/ipu_config.h"
#include "transom/device_plugin.hpp"

namespace transom::ipu {

// The number of the layer in the path of a module ("bert.encoder.layer.3.output"), or -1.
int64_t layer_of(std::string_view scope);

struct Placement {
  std::vector<uint32_t> nodes;   // the IPU of each
  std::vector<uint32_t> inputs;  // of each input of the graph: that of the first node that reads it
};

Placement place(const transom_graph& graph, const IpuConfig& config);

}  // namespace transom::ipu
