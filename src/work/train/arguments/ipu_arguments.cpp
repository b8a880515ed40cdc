// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/ipu_arguments.h"

#include <optional>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "runtime/distributed/environment.h"
#include "transom/device.h"
#include "transom/distributed.h"

namespace transom {
namespace {

constexpr int64_t kMostReplicas = 1024, kMostAccumulated = 1 << 20;

int64_t count_in(const Json& config, const char* name, const std::string& where, int64_t otherwise,
                 int64_t most = kMostReplicas) {
  if (!config.contains(name) || config[name].is_null()) return otherwise;
  const Json* value = &config[name];
  // Former versions wrote one for each size of a machine, with the one that holds for all.
  if (value->is_object() && value->contains("default")) value = &(*value)["default"];
  if (!value->is_number_integer() || *value < 1 || *value > most)
    fail(ErrorKind::kUsage, "{}: {}: expected a whole number from 1 to {}, found {}", where, name, most,
         quoted(dump_json(config[name])));
  return value->get<int64_t>();
}

bool truth_in(const Json& config, const char* name, const std::string& where) {
  if (!config.contains(name) || config[name].is_null()) return false;
  if (!config[name].is_boolean())
    fail(ErrorKind::kUsage, "{}: {}: expected true or false, found {}", where, name, quoted(dump_json(config[name])));
  return config[name].get<bool>();
}

std::string device_of(const TrainArguments& arguments) {
  return arguments.script.device.value_or(first_text({"TRANSOM_DEVICE"}));
}

// A device is one replica, of as many IPUs as the file says.
void expect_devices(int64_t replicas, const std::string& where) {
  int64_t found = 0;
  for (const DeviceInfo& info : list_devices()) found += info.reason.empty() && info.name.starts_with("ipu");
  if (found > 0 && found < replicas)
    fail(
        ErrorKind::kUsage,
        "{}: expected {} replicas of ipus_per_replica IPUs each, found IPUs for {}: use a larger machine (the emulated "
        "one has as many as TRANSOM_EMULATED_IPU=bow:N says), or fewer replicas",
        where, replicas, found);
}

// Of the run, where it is on the ipu device and has one.
std::optional<std::string> file_of(const std::string& device) {
  const std::string file = first_text({"TRANSOM_IPU_CONFIG"});
  if (device.substr(0, device.find(':')) != "ipu" || file.empty()) return std::nullopt;
  return file;
}

}  // namespace

IpuRun read_ipu_run(const std::string& file) {
  const fs::path path = directory_exists(file) ? fs::path(file) / "ipu_config.json" : fs::path(file);
  const std::string where = path.string();
  if (!path_exists(path))
    fail(ErrorKind::kUsage, "--ipu_config_name: expected an ipu_config.json or its directory, found no {}", where);
  const Json config = read_json(path);
  if (!config.is_object()) fail(ErrorKind::kUsage, "{}: expected a JSON object", where);
  IpuRun run;
  run.training =
      count_in(config, "training_replication_factor", where, count_in(config, "replication_factor", where, 1));
  run.inference = count_in(config, "inference_replication_factor", where, run.training);
  run.shards_optimizer = truth_in(config, "replicated_tensor_sharding", where);
  run.recomputes = truth_in(config, "recompute_checkpoint_every_layer", where);
  run.gradient_accumulation_steps = count_in(config, "gradient_accumulation_steps", where, 1, kMostAccumulated);
  if (run.shards_optimizer && run.training < 2)
    fail(ErrorKind::kUsage,
         "{}: replicated_tensor_sharding: expected a replication_factor of at least 2, found {}: set it, or leave "
         "replicated_tensor_sharding false",
         where, run.training);
  return run;
}

void resolve_ipu(TrainArguments& arguments, bool accumulation_is_given) {
  const auto file = file_of(device_of(arguments));
  if (!file) return;
  const IpuRun run = read_ipu_run(*file);
  TrainingArguments& training = arguments.training;
  if (run.shards_optimizer && training.zero_stage == 0 && training.fsdp.empty()) training.zero_stage = 1;
  if (run.recomputes) training.activation_checkpointing = true;
  if (!accumulation_is_given) training.gradient_accumulation_steps = run.gradient_accumulation_steps;
}

bool ipu_recomputes(const std::string& device) {
  const auto file = file_of(device.empty() ? first_text({"TRANSOM_DEVICE"}) : device);
  return file && read_ipu_run(*file).recomputes;
}

int64_t ipu_processes_to_start(const TrainArguments& arguments, bool evaluates) {
  const auto file = file_of(device_of(arguments));
  if (!file) return 1;
  const IpuRun run = read_ipu_run(*file);
  const int64_t expected = evaluates ? run.inference : run.training, found = launch_of_environment().ranks;
  if (expected == 1 || found == expected) return 1;
  const bool launched = found > 1 || !first_text({"WORLD_SIZE"}).empty();
  if (!launched) {
    if (device_of(arguments) == "ipu") expect_devices(expected, *file);
    return expected;
  }
  fail(
      ErrorKind::kUsage,
      "{}: {}: expected {} processes, one for each replica, found {}: leave the launcher out, and transom starts them, "
      "or start that many",
      *file, evaluates ? "inference_replication_factor" : "replication_factor", expected, found);
}

}  // namespace transom
