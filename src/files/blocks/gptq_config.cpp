// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/gptq_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/json/json.h"

namespace transom {
namespace {

// The names of blocks that Transformers (optimum's GPTQQuantizer) finds by itself.
constexpr std::array<std::string_view, 7> kKnownBlocks = {
    "transformer.h", "model.decoder.layers", "gpt_neox.layers", "model.layers", "h", "decoder.layers", "layers"};

struct Place {
  std::string blocks, part;  // "model.layers" and "self_attn.q_proj" of model.layers.3.self_attn.q_proj
};

// Split at the first number; a module outside of blocks has no part.
Place place_of(const std::string& module) {
  for (size_t dot = module.find('.'); dot != module.npos; dot = module.find('.', dot + 1)) {
    const size_t end = module.find('.', dot + 1);
    if (end == module.npos) break;
    if (std::all_of(module.begin() + static_cast<std::ptrdiff_t>(dot + 1),
                    module.begin() + static_cast<std::ptrdiff_t>(end), [](unsigned char c) { return std::isdigit(c); }))
      return {module.substr(0, dot), module.substr(end + 1)};
  }
  return {module, ""};
}

std::string common_beginning(const std::set<std::string>& names) {
  if (names.empty()) return "";
  const std::string &first = *names.begin(), &last = *names.rbegin();
  const auto size = static_cast<std::ptrdiff_t>(std::min(first.size(), last.size()));
  return {first.begin(), std::mismatch(first.begin(), first.begin() + size, last.begin()).first};
}

}  // namespace

Json gptq_config_of(int bits, int64_t group, bool act_order, const std::vector<std::string>& made,
                    const std::vector<std::string>& kept) {
  Json config{{"quant_method", "gptq"},  {"bits", bits},          {"group_size", group > 0 ? group : -1},
              {"desc_act", act_order},   {"sym", true},           {"checkpoint_format", "gptq"},
              {"true_sequential", true}, {"static_groups", false}};
  std::set<std::string> blocks, parts, kept_parts;
  for (const std::string& module : made) blocks.insert(place_of(module).blocks);
  Json left_out = Json::object();
  for (const std::string& module : kept) {
    const Place place = place_of(module);
    if (place.part.empty()) continue;
    kept_parts.insert(place.part);
    left_out["-:^" + module + "$"] = Json::object();
  }
  const bool is_known =
      blocks.size() == 1 && std::find(kKnownBlocks.begin(), kKnownBlocks.end(), *blocks.begin()) != kKnownBlocks.end();
  if (is_known && left_out.empty()) return config;
  // Endings of names, or whole names where only some of the blocks have codes for that part.
  for (const std::string& module : made) {
    const Place place = place_of(module);
    parts.insert(place.part.empty() || kept_parts.contains(place.part) ? module : place.part);
  }
  if (!is_known) config["block_name_to_quantize"] = common_beginning(blocks);
  config["modules_in_block_to_quantize"] = Json::array({Json(parts)});
  if (!left_out.empty()) config["dynamic"] = std::move(left_out);
  return config;
}

}  // namespace transom
