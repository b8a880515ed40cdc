// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/quantization_config.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"

namespace transom {
namespace {

struct Method {
  const char* name;
  void (*read)(const Config& config, Checkpoint& checkpoint);
};
constexpr Method kMethods[] = {{"gptq", read_gptq},
                               {"awq", read_awq},
                               {"compressed-tensors", read_compressed_tensors},
                               {"fp8", read_fine_grained_fp8},
                               {"bitsandbytes", read_bitsandbytes},
                               {"mxfp4", read_mxfp4}};

// What AutoAWQ's own file calls otherwise.
Config renamed(const Config& config) {
  Config result = config;
  for (const auto& [old, name] : {std::pair{"w_bit", "bits"}, {"q_group_size", "group_size"}})
    if (config.has(old)) set_field(result, name, json_of(config)[old]);
  return result;
}

// A reader takes codes by their scales: codes that are left would be read as numbers.
void refuse_codes_without_scales(const Checkpoint& checkpoint, const std::string& method) {
  for (const auto& [name, view] : checkpoint.tensors())
    if (name.ends_with(".weight") &&
        (view.dtype == DType::kUInt8 || view.dtype == DType::kInt8 || view.dtype == DType::kInt32))
      fail("{}: tensor {}: holds codes ({}), but the tensors of its scales that {} has beside it are missing",
           checkpoint.where(), quoted(name), name_of(view.dtype), method);
}

}  // namespace

std::optional<Config> quantization_config(const fs::path& directory) {
  if (path_exists(directory / "config.json")) {
    const Config config = Config::read(directory / "config.json");
    if (config.has("quantization_config")) return config.get_object("quantization_config");
  }
  for (const auto& [file, method] : {std::pair{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}}) {
    if (!path_exists(directory / file)) continue;
    Config config = renamed(Config::read(directory / file));
    if (!config.has("quant_method")) set_field(config, "quant_method", Json(method));
    return config;
  }
  return std::nullopt;
}

void read_quantized_weights(const Config& config, Checkpoint& checkpoint) {
  std::string method = config.get_string("quant_method", "");
  // Checkpoints of bitsandbytes before Transformers 4.38 name no method.
  if (method.empty() && (config.get_bool("load_in_4bit", false) || config.get_bool("load_in_8bit", false)))
    method = "bitsandbytes";
  std::vector<std::string> names;
  for (const Method& known : kMethods) {
    if (method == known.name) {
      known.read(config, checkpoint);
      return refuse_codes_without_scales(checkpoint, method);
    }
    names.emplace_back(known.name);
  }
  fail("{}: quant_method {} is not supported; {} are", config.where(), quoted(method), fmt::join(names, ", "));
}

}  // namespace transom
