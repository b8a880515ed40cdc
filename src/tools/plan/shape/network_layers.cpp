// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/network_layers.h"

#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/json/json.h"
#include "tools/plan/plan_data.h"

namespace transom {
namespace {

constexpr double kFewChannels = 4;    // of a picture: columns of a kernel are laid side by side with its channels
constexpr size_t kMostLayers = 4096;  // of a file
constexpr double kLargestExtent = 1e6;

double blocks(double extent, double block) { return std::ceil(extent / block); }

LayerKind layer_kind(const std::string& name, const std::string& where) {
  static const std::map<std::string, LayerKind> kinds = {{"input", LayerKind::kInput},
                                                         {"convolution", LayerKind::kConvolution},
                                                         {"depthwise", LayerKind::kDepthwise},
                                                         {"pool", LayerKind::kPool},
                                                         {"sum", LayerKind::kSum},
                                                         {"resize", LayerKind::kResize},
                                                         {"join", LayerKind::kJoin},
                                                         {"slice", LayerKind::kSlice}};
  const auto found = kinds.find(name);
  if (found == kinds.end()) fail("{}: there is no kind of layer {}", where, quoted(name));
  return found->second;
}

Network network_from(const Json& rows, const std::string& where) {
  if (!rows.is_array() || rows.empty() || rows.size() > kMostLayers)
    fail("{}: expected an array of 1 to {} layers", where, kMostLayers);
  Network network;
  for (const Json& row : rows) {
    const std::string here = fmt::format("{}: layer {}", where, network.size());
    if (!row.is_array() || row.size() != 7 || !row[0].is_string() || !row[1].is_array())
      fail("{}: expected [kind, [inputs], channels, height, width, kernel height, kernel width]", here);
    NetworkLayer layer;
    layer.kind = layer_kind(row[0].get<std::string>(), here);
    for (const Json& input : row[1]) {
      if (!input.is_number_unsigned() || input.get<size_t>() >= network.size())
        fail("{}: expected inputs below {}, found {}", here, network.size(), input.dump());
      layer.inputs.push_back(input.get<size_t>());
    }
    if (layer.inputs.empty() != (layer.kind == LayerKind::kInput))
      fail("{}: expected inputs for all but the input, found {}", here, layer.inputs.size());
    double* const fields[] = {&layer.channels, &layer.height, &layer.width, &layer.kernel_height, &layer.kernel_width};
    for (size_t i = 0; i < std::size(fields); ++i) {
      const Json& value = row[i + 2];
      if (!value.is_number() || !(value.get<double>() >= 1) || value.get<double>() > kLargestExtent)
        fail("{}: expected extents from 1 to {}, found {}", here, kLargestExtent, value.dump());
      *fields[i] = value.get<double>();
    }
    network.push_back(std::move(layer));
  }
  return network;
}

double elements_of(const NetworkLayer& layer, double block) {
  const double channels = layer.channels <= kFewChannels ? layer.channels : blocks(layer.channels, block) * block;
  return channels * layer.height * layer.width;
}

void add_steps(TiledWork& work, const Network& network, const NetworkLayer& layer, const LayerEngine& engine) {
  const double taps = layer.kernel_height * layer.kernel_width;
  const double values = layer.channels * layer.height * layer.width;
  const double lanes =
      layer.height * blocks(layer.width, engine.lane_pixels) * blocks(layer.channels, engine.lane_channels);
  switch (layer.kind) {
    case LayerKind::kConvolution: {
      const double read = network[layer.inputs[0]].channels;
      const double steps = read <= kFewChannels
                               ? blocks(read * layer.kernel_width, engine.input_channels) * layer.kernel_height
                               : blocks(read, engine.input_channels) * taps;
      work.product_cycles +=
          layer.height * blocks(layer.width, engine.pixels) * blocks(layer.channels, engine.output_channels) * steps;
      work.flops += 2 * values * read * taps;
      break;
    }
    case LayerKind::kDepthwise:
      work.flops += 2 * values * taps;
      [[fallthrough]];
    case LayerKind::kPool:
      work.lane_cycles += lanes * taps;
      break;
    case LayerKind::kSum:
      work.lane_cycles += lanes * static_cast<double>(layer.inputs.size());
      break;
    case LayerKind::kResize:
      work.lane_cycles += lanes;
      break;
    case LayerKind::kInput:
    case LayerKind::kJoin:
    case LayerKind::kSlice:
      break;
  }
}

}  // namespace

TiledWork tiled_work(const Network& network, const LayerEngine& engine, double bytes_per_element) {
  TiledWork work;
  const double block = engine.input_channels;
  std::vector<double> readers(network.size(), 0);  // that fetch the map; joining does not
  std::vector<bool> moved(network.size(), false), used(network.size(), false);
  for (size_t i = 0; i < network.size(); ++i) {
    const NetworkLayer& layer = network[i];
    add_steps(work, network, layer, engine);
    const bool joins = layer.kind == LayerKind::kJoin;
    if (layer.kind == LayerKind::kInput || joins) moved[i] = true;
    for (const size_t input : layer.inputs) {
      used[input] = true;
      readers[input] += joins ? 0 : 1;
      if (joins) moved[input] = true;
    }
    const bool works = layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDepthwise ||
                       layer.kind == LayerKind::kPool || layer.kind == LayerKind::kResize;
    if (!works) continue;
    // A picture of three channels takes a whole block a pixel, too.
    const NetworkLayer& read = network[layer.inputs[0]];
    const double together = blocks(read.channels, block) * block * read.height * read.width +
                            blocks(layer.channels, block) * block * layer.height * layer.width;
    if (together * bytes_per_element > engine.map_bytes) moved[i] = moved[layer.inputs[0]] = true;
  }
  for (size_t i = 0; i < network.size(); ++i) {
    const NetworkLayer& layer = network[i];
    if (!used[i]) work.outputs += layer.channels * layer.height * layer.width, moved[i] = true;
    if (!moved[i]) continue;
    const bool written = layer.kind != LayerKind::kInput && layer.kind != LayerKind::kJoin;
    work.moved += elements_of(layer, block) * (readers[i] + (written ? 1 : 0));
  }
  return work;
}

std::shared_ptr<const Network> find_network(const std::string& name) {
  static std::once_flag once;
  static std::map<std::string, std::shared_ptr<const Network>> networks;
  std::call_once(once, [] {
    const auto file = plan_data("plan/networks.json");
    const Json all = read_json(file);
    for (const auto& [known, rows] : all.at("networks").items())
      networks[known] = std::make_shared<const Network>(network_from(rows, file.string() + ": " + known));
  });
  const auto found = networks.find(name);
  return found == networks.end() ? nullptr : found->second;
}

Network parse_network(std::string_view text, const std::string& where) {
  return network_from(parse_json(text, where), where);
}

}  // namespace transom
