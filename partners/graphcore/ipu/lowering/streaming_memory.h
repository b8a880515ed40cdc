// SPDX-License-Identifier: Apache-2.0
// What stays beside the machine with `optimizer_state_offchip`: inputs that the update of the optimizer alone reads,
// each loaded just before it is read, and results of the update, each stored as soon as it is there.
#pragma once

#include <vector>

#include "transom/device_plugin.hpp"

namespace transom::ipu {

// By input and by output of the graph. Of a program that computes gradients too, these are the optimizer's state and
// the new weights; of one that only updates, weights as well. Single numbers stay on the tiles.
struct StreamedValues {
  std::vector<bool> inputs, outputs;
};
StreamedValues streamed_values(const transom_graph& graph);

}  // namespace transom::ipu
