// SPDX-License-Identifier: Apache-2.0
// Convolutional networks layer by layer, and what they cost an accelerator that works on tiles of channels and pixels
// and keeps maps in memory of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

enum class LayerKind { kInput, kConvolution, kDepthwise, kPool, kSum, kResize, kJoin, kSlice };

struct NetworkLayer {
  LayerKind kind = LayerKind::kInput;
  std::vector<size_t> inputs;  // earlier layers
  double channels = 0, height = 0, width = 0;
  double kernel_height = 1, kernel_width = 1;
};

using Network = std::vector<NetworkLayer>;

// Construction of such an accelerator, from its vendor's description (AMD's DPU: its target file). A product step
// multiplies `input_channels` x `output_channels` of `pixels`; lanes pool, add and filter depth-wise.
struct LayerEngine {
  double input_channels = 0, output_channels = 0, pixels = 0;
  double lane_channels = 0, lane_pixels = 0;
  double engines = 0;  // each works on a sample of its own
  double cycles_per_second = 0;
  double map_bytes = 0;                // of an engine, for the maps that a layer reads and writes
  double host_seconds_per_output = 0;  // to convert and search what the network leaves

  bool present() const { return engines > 0; }
};

// Of one sample on one engine.
struct TiledWork {
  double product_cycles = 0, lane_cycles = 0;
  double moved = 0;    // elements to and from the device's memory
  double outputs = 0;  // elements that the host is given
  double flops = 0;    // 2 a multiply-add
};

// A layer's maps are moved where both do not fit `map_bytes`, where channels are joined (only transfers can put maps
// side by side; each reader fetches the joined map), and at both ends.
TiledWork tiled_work(const Network& network, const LayerEngine& engine, double bytes_per_element);

// By the name in share/transom/plan/networks.json; null where there is none. Any thread.
std::shared_ptr<const Network> find_network(const std::string& name);

// From the text of such a file; errors name `where` and the network.
Network parse_network(std::string_view text, const std::string& where);

}  // namespace transom
