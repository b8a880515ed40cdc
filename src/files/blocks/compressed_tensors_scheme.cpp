// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/compressed_tensors_scheme.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr const char* kFormats[] = {
    "dense",           "int-quantized",        "float-quantized",      "naive-quantized",      "pack-quantized",
    "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp6-pack-quantized", "mxfp8-quantized"};

// What changes numbers beside the codes: rotations of inputs, and zeros that are left out.
void refuse_other_forms(const Config& config) {
  const std::string format = config.get_string("format", "dense");
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
    fail("{}: format {} is not supported; {} are", config.where(), quoted(format), fmt::join(kFormats, ", "));
  const Json rotations = config.has("transform_config") ? json_of(config)["transform_config"] : Json();
  if (rotations.is_object() ? !rotations.value("config_groups", Json::object()).empty() : !rotations.is_null())
    fail("{}: transform_config (rotated inputs) is not supported; expected a checkpoint without", config.where());
  if (config.has("sparsity_config"))
    if (const std::string sparse = config.get_object("sparsity_config").get_string("format", "dense");
        sparse != "dense")
      fail("{}: sparsity_config.format {} is not supported; dense is", config.where(), quoted(sparse));
}

int64_t parts(int64_t whole, int64_t size) { return whole / size + (whole % size != 0); }

}  // namespace

CompressedTensorsScheme::CompressedTensorsScheme(const Config& config) {
  refuse_other_forms(config);
  if (!config.has("config_groups")) return;
  const Json groups = json_of(config)["config_groups"];
  if (!groups.is_object()) fail("{}: config_groups: expected an object", config.where());
  zeros_everywhere = !groups.empty();
  for (const auto& [name, group] : groups.items()) {
    if (!group.is_object()) continue;
    const auto part = [&, &name = name, &group = group](const char* field) -> std::optional<Config> {
      if (!group.contains(field) || !group[field].is_object()) return std::nullopt;
      return make_config(group[field], fmt::format("{}: {}.{}", config.where(), name, field));
    };
    if (const std::optional<Config> inputs = part("input_activations"))
      by_token |= inputs->get_string("type", "int") == "int" && inputs->get_int("num_bits", 8) == 8 &&
                  inputs->get_string("strategy", "token") == "token" && inputs->get_bool("symmetric", true);
    if (const std::optional<Config> weights = part("weights")) {
      bits.insert(weights->get_int("num_bits", 8));
      zeros_everywhere &= !weights->get_bool("symmetric", true) && weights->get_string("type", "int") == "int";
      if (const int64_t size = weights->get_int("group_size", -1); size > 0) parts_.push_back({1, size});
      if (!weights->has("block_structure")) continue;
      const std::vector<int64_t> block = weights->get_ints("block_structure");
      if (block.size() != 2 || block[0] <= 0 || block[1] <= 0)
        fail("{}: block_structure: expected two numbers above 0", weights->where());
      parts_.push_back({block[0], block[1]});
    }
  }
}

std::optional<ScalePart> CompressedTensorsScheme::part_of_scale(const ScalePart& matrix, const ScalePart& grid) const {
  if (grid.rows < 1 || grid.depth < 1 || grid.rows > matrix.rows || grid.depth > matrix.depth) return std::nullopt;
  const auto fits = [&](const ScalePart& part) {
    return parts(matrix.rows, part.rows) == grid.rows && parts(matrix.depth, part.depth) == grid.depth;
  };
  for (const ScalePart& part : parts_)
    if (fits(part)) return ScalePart{std::min(part.rows, matrix.rows), std::min(part.depth, matrix.depth)};
  const bool by_row = grid.rows == matrix.rows, is_whole = grid.rows == 1 && grid.depth == 1;
  const ScalePart even{by_row ? 1 : matrix.rows, parts(matrix.depth, grid.depth)};
  return (by_row || is_whole) && fits(even) ? std::optional(even) : std::nullopt;
}

}  // namespace transom
