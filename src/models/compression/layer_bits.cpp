// SPDX-License-Identifier: Apache-2.0
#include "models/compression/layer_bits.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

std::map<std::string, int> chosen_bits(const std::vector<LayerSensitivity>& layers, double target) {
  double used = 0, weights = 0;
  std::map<std::string, int> chosen;
  for (const LayerSensitivity& layer : layers) {
    weights += static_cast<double>(layer.weights);
    used += static_cast<double>(layer.weights) * layer.bits_of_4;
    chosen[layer.name] = 4;
  }
  if (weights > 0 && used > target * weights)
    fail(ErrorKind::kUsage, "--target_bits: expected at least {:.3f}, which 4 bits take with their scales, found {}",
         used / weights, target);
  const auto cost = [](const LayerSensitivity& layer) {
    return static_cast<double>(layer.weights) * (layer.bits_of_8 - layer.bits_of_4);
  };
  const auto gain = [&](const LayerSensitivity& layer) { return (layer.loss_of_4 - layer.loss_of_8) / cost(layer); };
  std::vector<const LayerSensitivity*> order;
  for (const LayerSensitivity& layer : layers)
    if (layer.weights > 0 && layer.loss_of_4 > layer.loss_of_8) order.push_back(&layer);
  std::stable_sort(order.begin(), order.end(),
                   [&](const LayerSensitivity* a, const LayerSensitivity* b) { return gain(*a) > gain(*b); });
  for (const LayerSensitivity* layer : order) {
    if (used + cost(*layer) > target * weights) continue;
    used += cost(*layer);
    chosen[layer->name] = 8;
  }
  return chosen;
}

}  // namespace transom
