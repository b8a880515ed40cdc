// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/foreign_configs.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "transom/distributed.h"

namespace transom {
namespace {

const Argument kForeignArguments[] = {
    section("Configurations of other programs"),
    field<&ForeignConfigs::deepspeed>("deepspeed", "A configuration of DeepSpeed, as an object or a file."),
    field<&ForeignConfigs::parallelism_config>(
        "parallelism_config", "Accelerate's ParallelismConfig (dp_shard_size, tp_size ...), as an object or a file."),
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  fail(ErrorKind::kUsage, text, std::forward<Args>(args)...);
}

// What reads one key; `name` is its whole path, for errors.
using Reader = std::function<void(const std::string& name, const Json& value)>;
using Readers = std::map<std::string, Reader, std::less<>>;

void read_object(const std::string& where, const Json& object, const Readers& readers) {
  if (!object.is_object()) refuse("{}: expected an object, found {}", where, object.dump());
  std::vector<std::string> known;
  for (const auto& [name, reader] : readers) known.push_back(name);
  for (const auto& [name, value] : object.items()) {
    const auto reader = readers.find(name);
    if (reader == readers.end())
      refuse("{}: {} is not known, or not offered{}", where, quoted(name), did_you_mean(name, known));
    reader->second(where + (where == "deepspeed" || where == "parallelism_config" ? ": " : ".") + name, value);
  }
}

bool is_auto(const Json& value) { return value == "auto" || value.is_null(); }

double number_of(const std::string& name, const Json& value) {
  if (!value.is_number()) refuse("{}: expected a number or \"auto\", found {}", name, value.dump());
  return value.get<double>();
}

int64_t count_of(const std::string& name, const Json& value, int64_t least) {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) || value.get<double>() > 1e9)
    refuse("{}: expected a whole number of at least {}, found {}", name, least, value.dump());
  return value.get<int64_t>();
}

// The value must be that of the argument, which "auto" stands for.
Reader agrees_with(const char* argument, double own) {
  return [=](const std::string& name, const Json& value) {
    if (!is_auto(value) && number_of(name, value) != own)
      refuse("{}: is {}, and {} is {}: expected the same, or \"auto\"", name, value.dump(), argument, own);
  };
}

// Only this value: anything else is not offered.
Reader only(const Json& accepted, const char* why) {
  return [=](const std::string& name, const Json& value) {
    if (!is_auto(value) && value != accepted)
      refuse("{}: expected {}, found {}: {}", name, accepted.dump(), value.dump(), why);
  };
}

Reader reader_without_effect(std::vector<std::string>& notes) {
  return [&notes](const std::string& name, const Json&) { notes.push_back(name + " has no effect"); };
}

// ---- DeepSpeed

// The device that values are offloaded to.
std::string offload_device(const Json& value) {
  const Json device = value.is_object() ? value.value("device", Json("none")) : value;
  return device.is_string() ? device.get<std::string>() : device.dump();
}

void read_offload_of_parameters(const std::string& name, const Json& value) {
  if (const std::string device = offload_device(value); !is_auto(value) && device != "none")
    refuse("{}: expected device \"none\", found {}: parameters stay on the device; offload_optimizer is offered", name,
           quoted(device));
}

Reader read_offload_of_optimizer(TrainingArguments& arguments) {
  return [&arguments](const std::string& name, const Json& value) {
    if (is_auto(value)) return;
    const std::string device = offload_device(value);
    if (device == "none") return;
    if (device != "cpu")
      refuse("{}: expected device \"cpu\" or \"none\", found {}: nothing is kept on disks", name, quoted(device));
    arguments.offload_optimizer_device = device;
  };
}

void read_zero(const std::string& where, const Json& object, TrainingArguments& arguments,
               std::vector<std::string>& notes) {
  Readers readers{
      {"stage",
       [&](const std::string& name, const Json& value) {
         if (is_auto(value)) return;
         const int64_t stage = count_of(name, value, 0);
         if (stage > 3) refuse("{}: expected 0 to 3, found {}", name, stage);
         if (arguments.zero_stage != 0 && arguments.zero_stage != stage)
           refuse("{}: is {}, and zero_stage is {}: expected one of the two", name, stage, arguments.zero_stage);
         if (stage > 0 && !arguments.fsdp.empty()) refuse("{}: expected one of deepspeed and fsdp, found both", name);
         arguments.zero_stage = stage;
       }},
      {"offload_optimizer", read_offload_of_optimizer(arguments)},
      {"offload_param", read_offload_of_parameters},
      {"cpu_offload",  // of older versions
       [&](const std::string& name, const Json& value) {
         if (is_auto(value)) return;
         if (!value.is_boolean()) refuse("{}: expected true or false, found {}", name, value.dump());
         if (value.get<bool>()) arguments.offload_optimizer_device = "cpu";
       }},
      {"zero_hpz_partition_size", only(1, "parameters have one partition")},
      {"zero_quantized_weights", only(false, "weights travel as they are")},
      {"zero_quantized_gradients", only(false, "gradients travel as they are")},
      {"zero_quantized_nontrainable_weights", only(false, "weights travel as they are")},
  };
  // How PyTorch's buffers are laid out; here parameters are gathered one by one before they are used.
  for (const char* name :
       {"overlap_comm", "reduce_scatter", "reduce_bucket_size", "allgather_bucket_size", "allgather_partitions",
        "contiguous_gradients", "sub_group_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
        "stage3_max_live_parameters", "stage3_max_reuse_distance", "stage3_gather_16bit_weights_on_model_save",
        "stage3_gather_fp16_weights_on_model_save", "round_robin_gradients", "ignore_unused_parameters",
        "load_from_fp32_weights", "memory_efficient_linear", "param_persistence_threshold",
        "model_persistence_threshold"})
    readers[name] = reader_without_effect(notes);
  read_object(where, object, readers);
}

void read_optimizer(const std::string& where, const Json& object, const TrainingArguments& arguments) {
  const auto betas = [&](const std::string& name, const Json& value) {
    if (is_auto(value)) return;
    if (!value.is_array() || value.size() != 2) refuse("{}: expected two numbers, found {}", name, value.dump());
    agrees_with("adam_beta1", arguments.adam_beta1)(name, value[0]);
    agrees_with("adam_beta2", arguments.adam_beta2)(name, value[1]);
  };
  read_object(where, object,
              {{"type",
                [&](const std::string& name, const Json& value) {
                  if (value != "AdamW" && value != "Adam")
                    refuse("{}: expected AdamW or Adam, found {}; other optimizers are chosen by optim", name,
                           value.dump());
                  if (!arguments.optim.starts_with("adamw"))
                    refuse("{}: is {}, and optim is {}: expected the same", name, value.dump(), arguments.optim);
                }},
               {"params", [&](const std::string& name, const Json& value) {
                  read_object(name, value,
                              {{"lr", agrees_with("learning_rate", arguments.learning_rate)},
                               {"betas", betas},
                               {"eps", agrees_with("adam_epsilon", arguments.adam_epsilon)},
                               {"weight_decay", agrees_with("weight_decay", arguments.weight_decay)},
                               {"adam_w_mode", only(true, "decay is not a part of the gradient")},
                               {"torch_adam", [](const std::string&, const Json&) {}},
                               {"bias_correction", only(true, "moments are always corrected")}});
                }}});
}

void read_scheduler(const std::string& where, const Json& object, TrainingArguments& arguments) {
  const std::map<std::string, std::string> types{
      {"WarmupLR", "constant_with_warmup"}, {"WarmupDecayLR", "linear"}, {"WarmupCosineLR", "cosine"}};
  bool linear = false, has_steps = false;
  double steps = arguments.warmup_steps + arguments.warmup_ratio.value_or(0);
  read_object(where, object,
              {{"type",
                [&](const std::string& name, const Json& value) {
                  const auto found = value.is_string() ? types.find(value.get<std::string>()) : types.end();
                  if (found == types.end())
                    refuse("{}: expected WarmupLR, WarmupDecayLR or WarmupCosineLR, found {}", name, value.dump());
                  arguments.lr_scheduler_type = found->second;
                }},
               {"params", [&](const std::string& params, const Json& all) {
                  read_object(params, all,
                              {{"warmup_min_lr", only(0, "the rate begins at 0")},
                               {"warmup_max_lr", agrees_with("learning_rate", arguments.learning_rate)},
                               {"warmup_min_ratio", only(0.0, "the rate begins at 0")},
                               {"cos_min_ratio", only(0.0, "the rate ends at 0")},
                               {"warmup_num_steps",
                                [&](const std::string& name, const Json& value) {
                                  has_steps = true;
                                  if (is_auto(value)) return;
                                  const auto given = static_cast<double>(count_of(name, value, 0));
                                  if (steps != 0 && steps != given)
                                    refuse("{}: is {}, and warmup_steps is {}: expected the same, or \"auto\"", name,
                                           given, steps);
                                  arguments.warmup_steps = steps = given;
                                }},
                               {"total_num_steps",
                                [&](const std::string& name, const Json& value) {
                                  if (is_auto(value)) return;
                                  const int64_t given = count_of(name, value, 1);
                                  if (arguments.max_steps != given)
                                    refuse("{}: is {}, and max_steps is {}: expected the same, or \"auto\"", name,
                                           given, arguments.max_steps);
                                }},
                               {"warmup_type", [&](const std::string& name, const Json& value) {
                                  if (value != "linear" && value != "log")
                                    refuse("{}: expected linear or log, found {}", name, value.dump());
                                  linear = value == "linear";
                                }}});
                }}});
  if (!has_steps) refuse("{}: expected params.warmup_num_steps, a number or \"auto\" (DeepSpeed takes 1000)", where);
  if (!linear && steps > 0)
    refuse("{}: expected params.warmup_type \"linear\", found \"log\", which DeepSpeed takes by default", where);
}

void read_precision(const std::string& where, const Json& object, const char* argument, bool own) {
  Readers readers{{"enabled", [=](const std::string& name, const Json& value) {
                     if (is_auto(value)) return;
                     if (!value.is_boolean()) refuse("{}: expected true or false, found {}", name, value.dump());
                     if (value.get<bool>() != own)
                       refuse("{}: is {}, and {} is {}: expected the same, or \"auto\"", name, value.dump(), argument,
                              own);
                   }}};
  // Of the scaling of losses in float16, which is not offered.
  for (const char* name : {"loss_scale", "loss_scale_window", "initial_scale_power", "hysteresis", "min_loss_scale",
                           "auto_cast", "consecutive_hysteresis", "fp16_master_weights_and_grads"})
    readers[name] = [](const std::string&, const Json&) {};
  read_object(where, object, readers);
}

int64_t product(std::initializer_list<int64_t> sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes)
    if (size < 1 || __builtin_mul_overflow(result, size, &result))
      refuse("expected sizes of a mesh that are 1 or more and fit the processes, found {}", size);
  return result;
}

// Processes with rows of their own.
int64_t row_parts(const TrainingArguments& arguments) {
  return std::max<int64_t>(
      1, launch_of_environment().ranks / product({arguments.tp_size, arguments.pp_size, arguments.cp_size}));
}

void read_deepspeed(const Json& config, TrainingArguments& arguments, std::vector<std::string>& notes) {
  const int64_t rows = arguments.per_device_train_batch_size, accumulation = arguments.gradient_accumulation_steps;
  Json all_rows;
  Readers readers{
      {"train_batch_size", [&](const std::string&, const Json& value) { all_rows = value; }},
      {"train_micro_batch_size_per_gpu", agrees_with("per_device_train_batch_size", static_cast<double>(rows))},
      {"gradient_accumulation_steps", agrees_with("gradient_accumulation_steps", static_cast<double>(accumulation))},
      {"gradient_clipping", agrees_with("max_grad_norm", arguments.max_grad_norm)},
      {"zero_optimization",
       [&](const std::string& name, const Json& value) { read_zero(name, value, arguments, notes); }},
      {"optimizer", [&](const std::string& name, const Json& value) { read_optimizer(name, value, arguments); }},
      {"scheduler", [&](const std::string& name, const Json& value) { read_scheduler(name, value, arguments); }},
      {"bf16",
       [&](const std::string& name, const Json& value) { read_precision(name, value, "bf16", arguments.bf16); }},
      {"fp16",
       [&](const std::string& name, const Json& value) { read_precision(name, value, "fp16", arguments.fp16); }},
      {"tensor_parallel",
       [&](const std::string& name, const Json& value) {
         read_object(name, value, {{"autotp_size", [&](const std::string& key, const Json& size) {
                                      const int64_t given = count_of(key, size, 0);
                                      if (given > 1 && arguments.tp_size > 1 && arguments.tp_size != given)
                                        refuse("{}: is {}, and tp_size is {}: expected the same", key, given,
                                               arguments.tp_size);
                                      if (given > 1) arguments.tp_size = given;
                                    }}});
       }},
      {"activation_checkpointing",
       [&](const std::string& name, const Json& value) {
         for (const char* key : {"partition_activations", "cpu_checkpointing"})
           if (value.is_object() && value.value(key, Json(false)) != false)
             refuse("{}.{}: expected false, found {}: use --gradient_checkpointing", name, key, value[key].dump());
         notes.push_back(name + " has no effect: use --gradient_checkpointing");
       }},
      {"prescale_gradients", only(false, "gradients are divided once")},
      {"amp", [](const std::string& name, const Json& value) {
         if (value.is_object() && value.value("enabled", Json(false)) != false)
           refuse("{}: expected enabled false: use bf16", name);
       }}};
  for (const char* name : {"steps_per_print", "wall_clock_breakdown", "dump_state", "memory_breakdown",
                           "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "comms_logger",
                           "flops_profiler", "tensorboard", "wandb", "csv_monitor", "communication_data_type"})
    readers[name] = reader_without_effect(notes);
  read_object("deepspeed", config, readers);
  if (is_auto(all_rows)) return;
  const int64_t expected = rows * accumulation * row_parts(arguments);
  if (count_of("deepspeed: train_batch_size", all_rows, 1) != expected)
    refuse(
        "deepspeed: train_batch_size: expected {} (per_device_train_batch_size {} x gradient_accumulation_steps {} x "
        "{} "
        "processes with rows of their own), or \"auto\", found {}",
        expected, rows, accumulation, row_parts(arguments), all_rows.dump());
}

// ---- Accelerate

void read_parallelism(const Json& given, TrainingArguments& arguments) {
  Json config = Json::object();
  if (!given.is_object()) refuse("parallelism_config: expected an object, found {}", given.dump());
  constexpr std::string_view kPrefix = "parallelism_config_";
  for (const auto& [name, value] : given.items())
    config[name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name] = value;
  int64_t replicas = 1, shards = 1, heads = 1;
  const auto size_into = [](int64_t& argument) {
    return [&argument](const std::string& name, const Json& value) {
      if (is_auto(value)) return;
      const int64_t size = count_of(name, value, 1);
      if (argument > 1 && argument != size)
        refuse("{}: is {}, and the argument of that name is {}: expected the same", name, size, argument);
      argument = size;
    };
  };
  const auto ignored = [](const std::string&, const Json&) {};
  read_object("parallelism_config", config,
              {{"tp_size", size_into(arguments.tp_size)},
               {"cp_size", size_into(arguments.cp_size)},
               {"dp_replicate_size", size_into(replicas)},
               {"dp_shard_size", size_into(shards)},
               {"sp_size", size_into(heads)},
               {"cp_backend", only("torch", "there is one way")},
               {"cp_comm_strategy",
                [&](const std::string& name, const Json& value) {
                  // There, blocks of keys and values go round by all_to_all.
                  if (value == "alltoall") arguments.cp_strategy = "ring";
                  else if (value == "allgather") arguments.cp_strategy = "allgather";
                  else if (!is_auto(value)) refuse("{}: expected allgather or alltoall, found {}", name, value.dump());
                }},
               {"cp_handler", ignored},
               {"tp_handler", ignored},
               {"sp_handler", ignored},
               {"sp_backend", ignored}});
  // There the two ways have sizes of their own.
  if (heads > 1 && arguments.cp_size > 1)
    refuse("sp_size {} and cp_size {}: expected one of the two above 1", heads, arguments.cp_size);
  if (heads > 1) arguments.cp_size = heads, arguments.cp_strategy = "ulysses";
  if (shards > 1) {
    if (arguments.zero_stage == 0 && arguments.fsdp.empty()) arguments.fsdp = "full_shard";
    if (replicas > 1) {
      Json settings =
          arguments.fsdp_config.text.empty() ? Json::object() : parse_json(arguments.fsdp_config.text, "fsdp_config");
      settings["dp_replicate_size"] = replicas;
      arguments.fsdp_config.text = dump_json(settings);
    }
  }
  const int64_t ranks = launch_of_environment().ranks,
                asked = product(
                    {replicas, shards, arguments.tp_size, arguments.cp_size, arguments.pp_size, arguments.ep_size});
  if ((replicas > 1 || shards > 1) && asked != ranks)
    refuse(
        "parallelism_config: dp_replicate_size {} x dp_shard_size {} x tp_size {} x cp_size {}: expected {} processes, "
        "found {}",
        replicas, shards, arguments.tp_size, arguments.cp_size, asked, ranks);
}

}  // namespace

ArgumentTable foreign_table() { return kForeignArguments; }

void apply_foreign_configs(const ForeignConfigs& configs, TrainingArguments& arguments,
                           std::vector<std::string>& notes) {
  if (!configs.parallelism_config.text.empty())
    read_parallelism(parse_json(configs.parallelism_config.text, "parallelism_config"), arguments);
  if (!configs.deepspeed.text.empty())
    read_deepspeed(parse_json(configs.deepspeed.text, "deepspeed"), arguments, notes);
}

}  // namespace transom
