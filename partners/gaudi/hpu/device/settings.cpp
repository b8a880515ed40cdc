// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hpu/device/error.h"

namespace transom::hpu {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  fail(TRANSOM_INVALID_ARGUMENT, text, std::forward<Arguments>(arguments)...);
}

// ---- gaudi_config.json

constexpr std::array<std::string_view, 7> kProducts = {"addmm", "baddbmm", "bmm", "conv2d", "linear", "matmul", "mm"};

bool has_products(const Json& names, const std::string& where) {
  if (!names.is_array()) refuse("{}: expected a list of names of operations, found '{}'", where, names.dump());
  return std::any_of(names.begin(), names.end(), [&](const Json& name) {
    if (!name.is_string()) refuse("{}: expected names of operations, found '{}'", where, name.dump());
    return std::find(kProducts.begin(), kProducts.end(), name.get<std::string>()) != kProducts.end();
  });
}

Json read_config(const fs::path& path) {
  constexpr uintmax_t kLargest = 1 << 20;
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  if (none) refuse("--gaudi_config_name: expected a gaudi_config.json or its directory, found no {}", path.string());
  if (size > kLargest) refuse("{}: expected at most {} bytes, found {}", path.string(), kLargest, size);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Json config = Json::parse(text, nullptr, false);
  if (config.is_discarded()) refuse("{}: expected JSON", path.string());
  if (!config.is_object()) refuse("{}: expected a JSON object", path.string());
  return config;
}

// What the file asks for: arguments of Transom in `answer`. Autocast here has matrix products and convolutions compute
// in bf16, and what follows them takes the type that it finds; sums and losses are f32.
void take_config(const std::string& given, const Json& values, Json& answer) {
  std::error_code none;
  const fs::path path = fs::is_directory(given, none) ? fs::path(given) / "gaudi_config.json" : fs::path(given);
  const Json config = read_config(path);
  const auto truth = [&](const std::string& name, const Json& value) {
    if (!value.is_boolean()) refuse("{}: {}: expected true or false, found '{}'", path.string(), name, value.dump());
    return value.get<bool>();
  };
  bool autocast = false, products = true;
  for (const auto& [name, value] : config.items()) {
    const std::string where = path.string() + ": " + name;
    if (name == "use_torch_autocast" || name == "use_habana_mixed_precision") {
      autocast = truth(name, value) || autocast;
    } else if (name == "autocast_bf16_ops" || name == "hmp_bf16_ops") {
      products = value.is_null() || has_products(value, where);
    } else if (name == "autocast_fp32_ops" || name == "hmp_fp32_ops") {
      if (!value.is_null() && has_products(value, where))
        refuse(
            "{}: names matrix products; those are what autocast computes in bf16 (leave use_torch_autocast out for "
            "f32)",
            where);
    } else if (name == "use_fused_adam") {
      if (truth(name, value) && values.value("optim", "") == "adamw_torch")
        answer["set"]["optim"] = "adamw_torch_fused";
    } else if (name == "use_fused_clip_norm" || name == "hmp_is_verbose") {
      truth(name, value);  // clipping is always fused into the step
    } else if (name == "use_dynamic_shapes") {
      if (truth(name, value)) refuse("{}: shapes are static; see --length_buckets", where);
    } else if (name != "hmp_opt_level" && !name.ends_with("_version") && name != "torch_dtype" && name != "dtype") {
      refuse(
          "{}: not known; known are use_torch_autocast, autocast_bf16_ops, autocast_fp32_ops, use_fused_adam, "
          "use_fused_clip_norm, use_dynamic_shapes",
          where);
    }
  }
  if (autocast && !products)
    answer["notes"].push_back(path.string() +
                              ": autocast_bf16_ops names no matrix product, so that all is computed in f32");
  if (autocast && products) answer["set"]["bf16"] = true;
}

// ---- arguments

bool is_hpu(const std::string& device) { return device.substr(0, device.find(':')) == "hpu"; }

std::string text_of(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : std::string();
}
bool is(const Json& object, const char* name, bool value) { return object.contains(name) && object[name] == value; }

void choose_device(const Json& given, const Json& values, Json& answer) {
  const std::string device = text_of(values, "device");
  if (is(given, "use_habana", true)) {
    if (!device.empty() && !is_hpu(device))
      refuse("--use_habana and --device {}: expected hpu, or no --device", device);
    if (is(values, "use_cpu", true)) refuse("--use_habana and --use_cpu: expected at most one of the two");
    if (device.empty()) answer["set"]["device"] = "hpu";
  } else if (is(given, "use_habana", false)) {
    if (is_hpu(device)) refuse("--use_habana false and --device {}: expected another device", device);
    answer["avoid"] = true;
  }
}

void choose_mode(const Json& given, const Json& values, Json& answer) {
  const auto choose = [&](const char* mode, const char* because) {
    if (const std::string found = text_of(values, "mode"); !found.empty() && found != mode)
      refuse("{} means --mode {}, found --mode {}", because, mode, found);
    answer["set"]["mode"] = mode;
  };
  const bool trains_in_graphs = is(given, "use_hpu_graphs_for_training", true),
             evaluates_in_graphs = is(given, "use_hpu_graphs_for_inference", true);
  if (evaluates_in_graphs) answer["set"]["inference_mode"] = "graph";
  if (is(given, "use_lazy_mode", false)) {
    if (trains_in_graphs || evaluates_in_graphs)
      refuse(
          "HPU graphs are not for eager mode: expected use_lazy_mode true beside use_hpu_graphs_for_training or "
          "use_hpu_graphs_for_inference");
    choose(is(values, "torch_compile", true) ? "compile" : "eager", "--use_lazy_mode false");
  } else if (trains_in_graphs) {
    choose("graph", "--use_hpu_graphs_for_training");
  } else if (is(given, "use_lazy_mode", true)) {
    choose("lazy", "--use_lazy_mode true");
  }
}

// In every command that is given no mode, as on PyTorch for Gaudi.
Json defaults() {
  const char* lazy = std::getenv("PT_HPU_LAZY_MODE");
  Json answer = Json::object();
  if (lazy && std::string_view(lazy) == "0") answer["mode"] = "eager";
  return answer;
}

}  // namespace

std::string settings_of(const std::string& request) {
  const Json asked = Json::parse(request);
  const std::string question = asked.at("question");
  if (question == "defaults") return defaults().dump();
  Json answer = Json::object();
  if (question != "arguments") return answer.dump();
  answer["set"] = Json::object();
  const Json &given = asked.at("arguments"), &values = asked.at("values");
  choose_device(given, values, answer);
  if (const std::string file = text_of(given, "gaudi_config_name"); !file.empty()) take_config(file, values, answer);
  choose_mode(given, values, answer);
  return answer.dump();
}

}  // namespace transom::hpu
