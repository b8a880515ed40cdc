// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/settings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int64_t kMostReplicas = 1024, kMostAccumulated = 1 << 20;

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  backend::fail(TRANSOM_INVALID_ARGUMENT, text, std::forward<Arguments>(arguments)...);
}

int64_t count_in(const Json& config, const char* name, const std::string& where, int64_t otherwise,
                 int64_t most = kMostReplicas) {
  if (!config.contains(name) || config[name].is_null()) return otherwise;
  const Json* value = &config[name];
  // Former versions wrote one for each size of a machine, with the one that holds for all.
  if (value->is_object() && value->contains("default")) value = &(*value)["default"];
  if (!value->is_number_integer() || *value < 1 || *value > most)
    refuse("{}: {}: expected a whole number from 1 to {}, found '{}'", where, name, most,
           config[name].dump().substr(0, 80));
  return value->get<int64_t>();
}

bool truth_in(const Json& config, const char* name, const std::string& where) {
  if (!config.contains(name) || config[name].is_null()) return false;
  if (!config[name].is_boolean())
    refuse("{}: {}: expected true or false, found '{}'", where, name, config[name].dump().substr(0, 80));
  return config[name].get<bool>();
}

Json read_config(const fs::path& path) {
  constexpr uintmax_t kLargest = 1 << 20;
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  if (none) refuse("--ipu_config_name: expected an ipu_config.json or its directory, found no {}", path.string());
  if (size > kLargest) refuse("{}: expected at most {} bytes, found {}", path.string(), kLargest, size);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Json config = Json::parse(text, nullptr, false);
  if (!config.is_object()) refuse("{}: expected a JSON object", path.string());
  return config;
}

std::string file_of_environment() {
  const char* file = std::getenv("TRANSOM_IPU_CONFIG");
  return file ? file : "";
}

bool is_ipu(const Json& device) {
  const std::string name = device.is_string() ? device.get<std::string>() : std::string();
  return name.substr(0, name.find(':')) == "ipu";
}

Json arguments_of(const Json& asked) {
  const Json& given = asked.at("arguments");
  if (given.contains("ipu_config_name"))
    ::setenv("TRANSOM_IPU_CONFIG", given["ipu_config_name"].get<std::string>().c_str(), 1);
  Json answer{{"set", Json::object()}};
  const std::string file = file_of_environment();
  if (file.empty() || !is_ipu(asked.at("device"))) return answer;  // the file is for another run
  const IpuRun run = read_ipu_run(file);
  const Json &values = asked.at("values"), &names = asked.at("given");
  if (run.shards_optimizer && values.at("zero_stage") == 0 && values.at("fsdp") == "") answer["set"]["zero_stage"] = 1;
  if (run.recomputes) answer["set"]["activation_checkpointing"] = true;
  if (std::find(names.begin(), names.end(), "gradient_accumulation_steps") == names.end())
    answer["set"]["gradient_accumulation_steps"] = run.gradient_accumulation_steps;
  return answer;
}

// A device is one replica, of as many IPUs as the file says.
Json processes_of(const Json& asked, const std::function<int64_t()>& replicas_here) {
  const std::string file = file_of_environment();
  if (file.empty()) return {{"processes", 1}};
  const IpuRun run = read_ipu_run(file);
  const bool evaluates = asked.at("evaluates");
  const int64_t expected = evaluates ? run.inference : run.training, found = asked.at("processes");
  if (expected == 1 || found == expected) return {{"processes", 1}};
  if (asked.at("launched") == true)
    refuse(
        "{}: {}: expected {} processes, one for each replica, found {}: leave the launcher out, and transom starts "
        "them, "
        "or start that many",
        file, evaluates ? "inference_replication_factor" : "replication_factor", expected, found);
  const int64_t here = asked.at("device") == "ipu" ? replicas_here() : 0;
  if (here > 0 && here < expected)
    refuse(
        "{}: expected {} replicas of ipus_per_replica IPUs each, found IPUs for {}: use a larger machine (the emulated "
        "one has as many as TRANSOM_EMULATED_IPU=bow:N says), or fewer replicas",
        file, expected, here);
  return {{"processes", expected}};
}

}  // namespace

IpuRun read_ipu_run(const std::string& file) {
  std::error_code none;
  const fs::path path = fs::is_directory(file, none) ? fs::path(file) / "ipu_config.json" : fs::path(file);
  const std::string where = path.string();
  const Json config = read_config(path);
  IpuRun run;
  run.training =
      count_in(config, "training_replication_factor", where, count_in(config, "replication_factor", where, 1));
  run.inference = count_in(config, "inference_replication_factor", where, run.training);
  run.shards_optimizer = truth_in(config, "replicated_tensor_sharding", where);
  run.recomputes = truth_in(config, "recompute_checkpoint_every_layer", where);
  run.gradient_accumulation_steps = count_in(config, "gradient_accumulation_steps", where, 1, kMostAccumulated);
  if (run.shards_optimizer && run.training < 2)
    refuse(
        "{}: replicated_tensor_sharding: expected a replication_factor of at least 2, found {}: set it, or leave "
        "replicated_tensor_sharding false",
        where, run.training);
  return run;
}

std::string settings_of(const std::string& request, const std::function<int64_t()>& replicas_here) {
  const Json asked = Json::parse(request);
  const std::string question = asked.at("question");
  if (question == "arguments") return arguments_of(asked).dump();
  if (question == "processes") return processes_of(asked, replicas_here).dump();
  Json answer = Json::object();
  const std::string file = file_of_environment();
  if (question == "defaults" && !file.empty() && read_ipu_run(file).recomputes) answer["gradient_checkpointing"] = true;
  return answer.dump();
}

}  // namespace transom::ipu
