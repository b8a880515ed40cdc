// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/spawn/accelerate_file.h"

#include <yaml-cpp/yaml.h>

#include <functional>
#include <initializer_list>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/distributed/environment.h"

namespace transom {
namespace {

class AccelerateReader {
 public:
  AccelerateReader(AccelerateFile& file, std::string_view where) : file_(file), where_(where) {}

  void read(const YAML::Node& root) {
    if (!root.IsMap()) fail("{}: expected keys with values, found none", where_);
    read_map("", root, top());
    finish();
  }

 private:
  using Take = std::function<void(const std::string& name, const YAML::Node& value)>;
  using Keys = std::map<std::string, Take, std::less<>>;

  template <typename... Args>
  [[noreturn]] void refuse(const std::string& name, fmt::format_string<Args...> text, Args&&... args) const {
    fail("{}: {}: {}", where_, name, fmt::format(text, std::forward<Args>(args)...));
  }

  void read_map(const std::string& prefix, const YAML::Node& map, const Keys& keys) {
    std::vector<std::string> known;
    for (const auto& [name, take] : keys) known.push_back(name);
    for (const auto& item : map) {
      const std::string name = item.first.IsScalar() ? item.first.Scalar() : "";
      const auto found = keys.find(name);
      if (found == keys.end()) refuse(prefix + name, "is not known, or not offered{}", did_you_mean(name, known));
      found->second(prefix + name, item.second);
    }
  }

  // ---- values

  static bool is_none(const YAML::Node& value) {
    return value.IsNull() || ((value.IsMap() || value.IsSequence()) && value.size() == 0) ||
           (value.IsScalar() && (value.Scalar().empty() || value.Scalar() == "null" || value.Scalar() == "None"));
  }
  std::string text(const std::string& name, const YAML::Node& value) const {
    if (!value.IsScalar()) refuse(name, "expected a text, found a list or a map");
    return value.Scalar();
  }
  int64_t whole(const std::string& name, const YAML::Node& value, int64_t low, int64_t high) const {
    int64_t number = 0;
    if (!value.IsScalar() || !YAML::convert<int64_t>::decode(value, number) || number < low || number > high)
      refuse(name, "expected a whole number from {} to {}, found {}", low, high,
             value.IsScalar() ? quoted(value.Scalar()) : "a list or a map");
    return number;
  }
  bool truth(const std::string& name, const YAML::Node& value) const {
    bool flag = false;  // "no" and "yes", as Accelerate quotes some of them, too
    if (!value.IsScalar() || !YAML::convert<bool>::decode(value, flag))
      refuse(name, "expected true or false, found {}", value.IsScalar() ? quoted(value.Scalar()) : "a list or a map");
    return flag;
  }
  // As JSON has it: what reads like a number or a truth is one.
  static Json json_of(const YAML::Node& value) {
    if (is_none(value)) return nullptr;
    bool flag = false;
    int64_t number = 0;
    double real = 0;
    if (YAML::convert<int64_t>::decode(value, number)) return number;
    if (YAML::convert<double>::decode(value, real)) return real;
    if (YAML::convert<bool>::decode(value, flag)) return flag;
    return value.IsScalar() ? Json(value.Scalar()) : Json(nullptr);
  }

  // ---- what becomes of keys

  static void pass(const std::string&, const YAML::Node&) {}
  Take has_no_effect() {
    return [this](const std::string& name, const YAML::Node& value) {
      if (!is_none(value)) file_.notes.push_back(name + " has no effect");
    };
  }
  // Anything but these texts is not offered.
  Take only(std::initializer_list<const char*> accepted, const char* why) {
    return [this, texts = std::vector<std::string>(accepted.begin(), accepted.end()), why](const std::string& name,
                                                                                           const YAML::Node& value) {
      if (is_none(value)) return;
      const std::string found = text(name, value);
      for (const std::string& each : texts)
        if (found == each) return;
      if (texts.empty()) refuse(name, "is not offered: {}", why);
      refuse(name, "expected {}, found {}: {}", fmt::join(texts, " or "), quoted(found), why);
    };
  }
  Take falsehood(const char* why) {
    return [this, why](const std::string& name, const YAML::Node& value) {
      if (!is_none(value) && truth(name, value)) refuse(name, "expected false, found true: {}", why);
    };
  }
  Take sub_map(Keys keys) {
    return [this, keys = std::move(keys)](const std::string& name, const YAML::Node& value) {
      if (is_none(value)) return;
      if (!value.IsMap()) refuse(name, "expected keys with values");
      read_map(name + ".", value, keys);
    };
  }

  Keys top() {
    constexpr int64_t kMostPorts = 65535;
    return {{"compute_environment", only({"LOCAL_MACHINE"}, "machines of a cloud's service are not started from here")},
            {"distributed_type", [this](const std::string& name, const YAML::Node& value) { take_type(name, value); }},
            {"num_processes",
             [this](const auto& name, const auto& value) { file_.processes = whole(name, value, 1, kMostRanks); }},
            {"num_machines",
             [this](const auto& name, const auto& value) { file_.machines = whole(name, value, 1, kMostRanks); }},
            {"machine_rank", [this](const auto& name,
                                    const auto& value) { file_.machine_rank = whole(name, value, 0, kMostRanks - 1); }},
            {"main_process_ip",
             [this](const auto& name, const auto& value) {
               if (!is_none(value)) file_.main_process_ip = text(name, value);
             }},
            {"main_process_port",
             [this](const auto& name, const auto& value) {
               if (!is_none(value)) file_.main_process_port = whole(name, value, 0, kMostPorts);
             }},
            {"mixed_precision", [this](const auto& name, const auto& value) { take_precision(name, value); }},
            {"use_cpu",
             [this](const auto& name, const auto& value) {
               if (truth(name, value)) add("--use_cpu", "true");
             }},
            {"mpirun_config", sub_map({{"mpirun_hostfile",
                                        [this](const auto& name, const auto& value) {
                                          file_.use_mpi = true;
                                          if (!is_none(value)) file_.hostfile = text(name, value);
                                        }},
                                       {"mpirun_ccl", has_no_effect()}})},
            {"fsdp_config", [this](const auto& name, const auto& value) { take_fsdp(name, value); }},
            {"deepspeed_config", [this](const auto& name, const auto& value) { take_deepspeed(name, value); }},
            {"parallelism_config", [this](const auto& name, const auto& value) { take_parallelism(name, value); }},
            {"dynamo_config", sub_map({{"dynamo_backend", has_no_effect()},
                                       {"dynamo_mode", has_no_effect()},
                                       {"dynamo_use_dynamic", has_no_effect()},
                                       {"dynamo_use_fullgraph", has_no_effect()},
                                       {"dynamo_use_regional_compilation", has_no_effect()}})},
            {"dynamo_backend", has_no_effect()},
            {"main_training_function", only({"main"}, "the command says what is run")},
            {"gpu_ids", only({"all"}, "each process takes the device of its place on the machine")},
            {"rdzv_backend", only({"static", "c10d"}, "processes find each other by main_process_ip")},
            {"downcast_bf16", falsehood("that is of TPUs")},
            {"tpu_use_cluster", falsehood("there are no TPUs")},
            {"tpu_use_sudo", falsehood("there are no TPUs")},
            {"tpu_env", has_no_effect()},
            {"commands", only({}, "the command line says what is run")},
            {"command_file", only({}, "the command line says what is run")},
            {"debug", pass},
            {"same_network", pass},
            {"enable_cpu_affinity", has_no_effect()},
            {"ipex_config", has_no_effect()},
            {"tpu_name", only({}, "there are no TPUs")},
            {"tpu_zone", only({}, "there are no TPUs")},
            {"megatron_lm_config", [this](const auto& name, const auto& value) {
               if (!is_none(value)) refuse(name, "is not offered; see tp_size and pp_size of transom train");
             }}};
  }

  void add(const char* flag, const std::string& value) {
    file_.words.emplace_back(flag);
    file_.words.push_back(value);
  }

  void take_type(const std::string& name, const YAML::Node& value) {
    type_ = text(name, value);
    for (const char* each : {"NO", "FSDP", "DEEPSPEED", "TP"})
      if (type_ == each) return;
    if (type_.starts_with("MULTI_")) return;  // MULTI_GPU and so on: whose devices, the plugins know
    refuse(name, "expected NO, MULTI_CPU, MULTI_GPU (or MULTI_ and another kind), FSDP, DEEPSPEED or TP, found {}",
           quoted(type_));
  }

  void take_precision(const std::string& name, const YAML::Node& value) {
    std::string precision = text(name, value);
    for (char& c : precision) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (precision == "bf16") return add("--bf16", "true");
    if (precision != "no" && precision != "false") refuse(name, "expected no or bf16, found {}", quoted(precision));
  }

  // Keys may begin with "fsdp_"; what is known of them transom train says.
  void take_fsdp(const std::string& name, const YAML::Node& map) {
    if (is_none(map)) return;
    if (!map.IsMap()) refuse(name, "expected keys with values");
    Json rest = Json::object();
    for (const auto& item : map) {
      std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
      if (key.starts_with("fsdp_")) key.erase(0, 5);
      const YAML::Node& value = item.second;
      if (is_none(value)) continue;
      if (key == "sharding_strategy") take_strategy(name + "." + item.first.Scalar(), value);
      else if (key == "offload_params") {
        if (truth(name + "." + key, value)) rest[key] = true;
      } else if (key == "activation_checkpointing" && truth(name + "." + key, value))
        add("--gradient_checkpointing", "true");
      else if (key == "version") whole(name + "." + key, value, 1, 2);
      else rest[key] = json_of(value);
    }
    fsdp_config_ = rest;
  }

  void take_strategy(const std::string& name, const YAML::Node& value) {
    const std::string strategy = text(name, value);
    if (strategy == "FULL_SHARD" || strategy == "1") fsdp_ = "full_shard";
    else if (strategy == "SHARD_GRAD_OP" || strategy == "2") fsdp_ = "shard_grad_op";
    else if (strategy == "NO_SHARD" || strategy == "3") fsdp_ = "";
    else
      refuse(name,
             "expected FULL_SHARD, SHARD_GRAD_OP or NO_SHARD, found {}; of HYBRID_SHARD: "
             "--fsdp_config '{{\"dp_replicate_size\": N}}'",
             quoted(strategy));
  }

  void take_deepspeed(const std::string& name, const YAML::Node& map) {
    if (is_none(map)) return;
    if (!map.IsMap()) refuse(name, "expected keys with values");
    read_map(
        name + ".", map,
        {{"deepspeed_config_file", [this](const auto& key, const auto& value) { deepspeed_file_ = text(key, value); }},
         {"zero_stage",
          [this](const auto& key, const auto& value) {
            deepspeed_["zero_optimization"]["stage"] = whole(key, value, 0, 3);
          }},
         {"gradient_accumulation_steps",
          [this](const auto& key, const auto& value) {
            if (text(key, value) != "auto") add("--gradient_accumulation_steps", text(key, value));
          }},
         {"gradient_clipping",
          [this](const auto& key, const auto& value) {
            if (text(key, value) != "auto") add("--max_grad_norm", text(key, value));
          }},
         {"offload_optimizer_device",
          [this](const auto& key, const auto& value) {
            only({"none", "cpu"}, "nothing is kept on disks")(key, value);
            if (text(key, value) == "cpu") deepspeed_["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"}};
          }},
         {"offload_param_device", only({"none"}, "parameters stay on the device")},
         {"offload_optimizer_nvme_path", only({"none"}, "nothing is kept on disks")},
         {"offload_param_nvme_path", only({"none"}, "nothing is kept on disks")},
         {"zero3_init_flag", pass},
         {"zero3_save_16bit_model", has_no_effect()},
         {"deepspeed_moe_layer_cls_names", has_no_effect()},
         {"deepspeed_multinode_launcher", has_no_effect()},
         {"deepspeed_hostfile", [this](const auto& key, const auto& value) {
            if (!is_none(value)) file_.hostfile = text(key, value);
          }}});
  }

  void take_parallelism(const std::string& name, const YAML::Node& map) {
    constexpr std::string_view kPrefix = "parallelism_config_";
    if (is_none(map)) return;
    if (!map.IsMap()) refuse(name, "expected keys with values");
    Json sizes = Json::object();
    for (const auto& item : map) {
      std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
      if (key.starts_with(kPrefix)) key.erase(0, kPrefix.size());
      if (!is_none(item.second)) sizes[key] = json_of(item.second);
    }
    add("--parallelism_config", dump_json(sizes));
  }

  // What several keys say together.
  void finish() {
    if (type_ == "FSDP") {
      if (!fsdp_.empty()) add("--fsdp", fsdp_);
      if (!fsdp_.empty() && !fsdp_config_.empty()) add("--fsdp_config", dump_json(fsdp_config_));
    } else if (!fsdp_config_.empty()) {
      file_.notes.emplace_back("fsdp_config has no effect without distributed_type FSDP");
    }
    const bool deepspeed = deepspeed_file_ || !deepspeed_.empty();
    if (type_ == "DEEPSPEED") {
      if (!deepspeed) refuse("deepspeed_config", "is missing, which distributed_type DEEPSPEED needs");
      add("--deepspeed", deepspeed_file_ ? *deepspeed_file_ : dump_json(deepspeed_));
    } else if (deepspeed) {
      file_.notes.emplace_back("deepspeed_config has no effect without distributed_type DEEPSPEED");
    }
  }

  AccelerateFile& file_;
  std::string_view where_;
  std::string type_, fsdp_ = "full_shard";
  Json fsdp_config_ = Json::object(), deepspeed_ = Json::object();
  std::optional<std::string> deepspeed_file_;
};

}  // namespace

AccelerateFile parse_accelerate_file(const std::string& text, std::string_view where) {
  AccelerateFile file;
  try {
    AccelerateReader(file, where).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    fail("{}: line {}: expected YAML: {}", where, error.mark.line + 1, error.msg);
  }
  return file;
}

}  // namespace transom
