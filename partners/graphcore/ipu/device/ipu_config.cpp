// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/ipu_config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using backend::fail;
using Json = nlohmann::json;

constexpr size_t kLargestFile = 1 << 20;
constexpr int64_t kMostIpus = 1024;

class Reader {
 public:
  Reader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  int64_t integer(const char* name, int64_t least, int64_t most, int64_t otherwise) const {
    if (!has(name)) return otherwise;
    const Json& value = json_[name];
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      refuse(name, "a whole number", value);
    const auto number = value.get<int64_t>();
    if (number < least || number > most) refuse(name, fmt::format("{} to {}", least, most).c_str(), value);
    return number;
  }
  bool boolean(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_boolean()) refuse(name, "true or false", json_[name]);
    return json_[name].get<bool>();
  }
  std::string text(const char* name) const {
    if (!has(name)) return {};
    if (!json_[name].is_string()) refuse(name, "a text", json_[name]);
    return json_[name].get<std::string>();
  }
  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  const Json& at(const char* name) const { return json_[name]; }

  [[noreturn]] void refuse(const char* name, const char* expected, const Json& found) const {
    fail(TRANSOM_UNAVAILABLE, "{}: {}: expected {}, found {}", where_, name, expected, found.dump().substr(0, 80));
  }

 private:
  const Json& json_;
  const std::string& where_;
};

}  // namespace

IpuConfig parse_ipu_config(const std::string& text, const std::string& where) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  if (deepest > 16) fail(TRANSOM_UNAVAILABLE, "{}: expected JSON of at most 16 levels, found {}", where, deepest);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) fail(TRANSOM_UNAVAILABLE, "{}: expected a JSON object", where);
  const Reader reader(json, where);
  IpuConfig config;
  // Either may be named after what it is for: training_layers_per_ipu counts before layers_per_ipu.
  for (const char* name : {"layers_per_ipu", "training_layers_per_ipu"}) {
    if (!reader.has(name)) continue;
    const Json& list = reader.at(name);
    if (!list.is_array() || list.empty() || list.size() > kMostIpus) reader.refuse(name, "a list of numbers", list);
    config.layers_per_ipu.clear();
    for (const Json& value : list) {
      if (!value.is_number_integer() || value.get<int64_t>() < -1 || value.get<int64_t>() > 100000)
        reader.refuse(name, "numbers of layers, or -1", value);
      config.layers_per_ipu.push_back(value.get<int64_t>());
    }
  }
  const auto stages = static_cast<int64_t>(config.layers_per_ipu.size());
  config.ipus_per_replica = static_cast<uint32_t>(reader.integer(
      "ipus_per_replica", 1, kMostIpus, reader.integer("training_ipus_per_replica", 1, kMostIpus, stages)));
  if (config.ipus_per_replica < stages)
    fail(TRANSOM_UNAVAILABLE, "{}: ipus_per_replica: expected at least {}, as many as layers_per_ipu has, found {}",
         where, stages, config.ipus_per_replica);
  while (config.ipus_per_replica & (config.ipus_per_replica - 1)) ++config.ipus_per_replica;  // as auto_round_num_ipus
  config.replication_factor = static_cast<uint32_t>(reader.integer("replication_factor", 1, kMostIpus, 1));
  config.gradient_accumulation_steps =
      static_cast<uint32_t>(reader.integer("gradient_accumulation_steps", 1, 1 << 20, 1));
  config.enable_half_partials = reader.boolean("enable_half_partials", false);
  config.stochastic_rounding = reader.boolean("stochastic_rounding", false);
  config.seed = static_cast<uint32_t>(reader.integer("seed", 0, UINT32_MAX, config.seed));
  for (const char* name : {"matmul_proportion", "training_matmul_proportion"}) {
    if (!reader.has(name)) continue;
    const Json& value = reader.at(name);
    config.matmul_proportion.clear();
    for (const Json& number : value.is_array() ? value : Json::array({value})) {
      if (!number.is_number() || !(number.get<double>() > 0 && number.get<double>() <= 1))
        reader.refuse(name, "numbers above 0 and up to 1", number);
      config.matmul_proportion.push_back(number.get<double>());
    }
    if (config.matmul_proportion.size() != 1 && config.matmul_proportion.size() != config.ipus_per_replica)
      reader.refuse(name, "one number, or one for each IPU", value);
  }
  config.optimizer_state_offchip = reader.boolean("optimizer_state_offchip", false);
  config.replicated_tensor_sharding = reader.boolean("replicated_tensor_sharding", false);
  if (config.replicated_tensor_sharding && config.replication_factor < 2)
    fail(TRANSOM_UNAVAILABLE,
         "{}: replicated_tensor_sharding: expected a replication_factor of at least 2, found {}: set it, or leave "
         "replicated_tensor_sharding false",
         where, config.replication_factor);
  reader.boolean("recompute_checkpoint_every_layer", false);  // the trainer's: it is in the graph that comes here
  config.embedding_serialization_factor =
      static_cast<uint32_t>(reader.integer("embedding_serialization_factor", 1, 1 << 20, 1));
  config.executable_cache_dir = reader.text("executable_cache_dir");
  return config;
}

IpuConfig read_ipu_config(const std::string& file) {
  std::filesystem::path path(file);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "ipu_config.json";
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kLargestFile)
    fail(TRANSOM_UNAVAILABLE, "{}: expected an ipu_config.json of at most {} bytes", path.string(), kLargestFile);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_ipu_config(text.str(), path.string());
}

const IpuConfig& ipu_config() {
  static const IpuConfig config = [] {
    const char* file = std::getenv("TRANSOM_IPU_CONFIG");
    return file && *file ? read_ipu_config(file) : IpuConfig();
  }();
  return config;
}

}  // namespace transom::ipu
