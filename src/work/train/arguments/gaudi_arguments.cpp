// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/gaudi_arguments.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"

namespace transom {
namespace {

using T = TrainingArguments;

constexpr std::string_view kSeeGraphs = "a graph is captured once for each shape, and length_buckets bounds the shapes";
constexpr std::string_view kSeeProfile = "--profile FILE records every step";
constexpr std::string_view kAttention = "attention is computed as the device does it best";
constexpr std::string_view kWholeSteps = "the device is given whole steps";

const Argument kGaudiArguments[] = {
    section("Intel Gaudi, by the names of Optimum Habana"),
    field<&T::use_habana>("use_habana", "Train on a Gaudi card (true), or on anything but one (false)."),
    field<&T::use_lazy_mode>("use_lazy_mode", "Lazy mode, or (false) eager mode; with torch_compile, compile mode."),
    field<&T::use_hpu_graphs_for_training>("use_hpu_graphs_for_training",
                                           "Capture a training step once for each shape and replay it (--mode graph)."),
    field<&T::use_hpu_graphs_for_inference>("use_hpu_graphs_for_inference",
                                            "Capture and replay the passes of evaluation and prediction."),
    alias("use_hpu_graphs", "use_hpu_graphs_for_inference"),
    field<&T::gaudi_config_name>("gaudi_config_name",
                                 "A gaudi_config.json, or its directory: use_torch_autocast is bf16."),
    alias("gaudi_config", "gaudi_config_name"),
    field<&T::throughput_warmup_steps>("throughput_warmup_steps",
                                       "First updates that the rates of training do not count.")
        .at_least(0),
    field<&T::adjust_throughput>("adjust_throughput",
                                 "Leave logging, evaluating and saving out of the rates of training."),

    ignored("non_blocking_data_copy", "copies never hold up the device"),
    ignored("pipelining_fwd_bwd", kWholeSteps),
    ignored("max_hpu_graphs", kSeeGraphs),
    ignored("disable_tensor_cache_hpu_graphs", kSeeGraphs),
    ignored("use_compiled_autograd", "gradients are always compiled with the step"),
    ignored("use_regional_compilation", kWholeSteps),
    ignored("compile_from_sec_iteration", kWholeSteps),
    ignored("inline_inbuilt_nn_modules", "it steers PyTorch, which Transom does not use"),
    ignored("allow_unspec_int_on_nn_module", "it steers PyTorch, which Transom does not use"),
    ignored("cache_size_limit", "recipes are kept as PT_HPU_RECIPE_CACHE_CONFIG says"),
    ignored("use_flash_attention", kAttention),
    ignored("flash_attention_recompute", kAttention),
    ignored("flash_attention_causal_mask", kAttention),
    ignored("flash_attention_fast_softmax", kAttention),
    ignored("profiling_record_shapes", kSeeProfile),
    ignored("profiling_with_stack", kSeeProfile),
    only_default("profiling_warmup_steps", {"0"}, kSeeProfile),
    only_default("profiling_steps", {"0"}, kSeeProfile),
    only_default("profiling_warmup_steps_eval", {"0"}, kSeeProfile),
    only_default("profiling_steps_eval", {"0"}, kSeeProfile),
    only_default("compile_dynamic", {"", "null", "false"}, "shapes are static; see --length_buckets"),
    only_default("distribution_strategy", {"ddp"}, "gradients are reduced in buckets, as ddp does"),
    only_default("context_parallel_size", {"1"}, "see --cp_size"),
    only_default("minimize_memory", {"false", "0", "no"}, "see --gradient_checkpointing"),
    only_default("use_zero3_leaf_promotion", {"false", "0", "no"}, "DeepSpeed is not used"),
    only_default("sdp_on_bf16", {"false", "0", "no"}, "attention sums in f32"),
    only_default("flash_attention_fp8", {"false", "0", "no"}, "training in 8 bits is not offered"),
    only_default("fp8", {"false", "0", "no"}, "training in 8 bits is not offered"),
    only_default("ignore_eos", {"true", "1", "yes"}, "evaluation generates no text, so nothing stops at its end"),
    only_default("mp_parameters", {"", "null"}, "see --tp_size and --fsdp"),
    only_default("tpu_num_cores", {"", "null"}, "there is no backend for TPUs"),
    only_default("tpu_metrics_debug", {"false", "0", "no"}, "there is no backend for TPUs"),
};

template <typename... Arguments>
[[noreturn]] void refuse_setting(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  fail(ErrorKind::kUsage, text, std::forward<Arguments>(arguments)...);
}

constexpr std::array<std::string_view, 7> kProducts = {"addmm", "baddbmm", "bmm", "conv2d", "linear", "matmul", "mm"};

bool has_products(const Json& names, const std::string& where) {
  if (!names.is_array())
    refuse_setting("{}: expected a list of names of operations, found {}", where, quoted(dump_json(names)));
  return std::any_of(names.begin(), names.end(), [&](const Json& name) {
    if (!name.is_string()) refuse_setting("{}: expected names of operations, found {}", where, quoted(dump_json(name)));
    return std::find(kProducts.begin(), kProducts.end(), name.get<std::string>()) != kProducts.end();
  });
}

// Autocast here has matrix products and convolutions compute in bf16, and what follows them takes the type that it
// finds; sums and losses are f32.
void read_gaudi_config(const std::string& given, TrainArguments& arguments) {
  namespace fs = std::filesystem;
  const fs::path path = directory_exists(given) ? fs::path(given) / "gaudi_config.json" : fs::path(given);
  if (!path_exists(path))
    refuse_setting("--gaudi_config_name: expected a gaudi_config.json or its directory, found no {}", path.string());
  const Json config = read_json(path);
  if (!config.is_object()) refuse_setting("{}: expected a JSON object", path.string());
  const auto truth = [&](const std::string& name, const Json& value) {
    if (!value.is_boolean())
      refuse_setting("{}: {}: expected true or false, found {}", path.string(), name, quoted(dump_json(value)));
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
        refuse_setting(
            "{}: names matrix products; those are what autocast computes in bf16 (leave use_torch_autocast out for "
            "f32)",
            where);
    } else if (name == "use_fused_adam") {
      if (truth(name, value) && arguments.training.optim == "adamw_torch")
        arguments.training.optim = "adamw_torch_fused";
    } else if (name == "use_fused_clip_norm" || name == "hmp_is_verbose") {
      truth(name, value);  // clipping is always fused into the step
    } else if (name == "use_dynamic_shapes") {
      if (truth(name, value)) refuse_setting("{}: shapes are static; see --length_buckets", where);
    } else if (name != "hmp_opt_level" && !name.ends_with("_version") && name != "torch_dtype" && name != "dtype") {
      refuse_setting(
          "{}: not known; known are use_torch_autocast, autocast_bf16_ops, autocast_fp32_ops, use_fused_adam, "
          "use_fused_clip_norm, use_dynamic_shapes",
          where);
    }
  }
  if (autocast && !products)
    arguments.notes.push_back(path.string() +
                              ": autocast_bf16_ops names no matrix product, so that all is computed in f32");
  if (autocast && products) arguments.training.bf16 = true;
}

bool is_hpu(const std::string& device) { return device.substr(0, device.find(':')) == "hpu"; }

}  // namespace

ArgumentTable gaudi_table() { return kGaudiArguments; }

void resolve_gaudi(TrainArguments& arguments) {
  TrainingArguments& training = arguments.training;
  ScriptArguments& script = arguments.script;
  if (training.use_habana == true) {
    if (script.device && !is_hpu(*script.device))
      refuse_setting("--use_habana and --device {}: expected hpu, or no --device", *script.device);
    if (training.use_cpu) refuse_setting("--use_habana and --use_cpu: expected at most one of the two");
    if (!script.device) script.device = "hpu";
  } else if (training.use_habana == false && script.device && is_hpu(*script.device)) {
    refuse_setting("--use_habana false and --device {}: expected another device", *script.device);
  }
  if (training.use_cpu) {
    if (script.device && *script.device != "cpu")
      refuse_setting("--use_cpu and --device {}: expected cpu, or no --device", *script.device);
    script.device = "cpu";
  }
  if (training.gaudi_config_name) read_gaudi_config(*training.gaudi_config_name, arguments);
  const auto choose = [&](const char* mode, const std::string& because) {
    if (script.mode && *script.mode != mode)
      refuse_setting("{} means --mode {}, found --mode {}", because, mode, *script.mode);
    script.mode = mode;
  };
  if (training.use_lazy_mode == false) {
    if (training.use_hpu_graphs_for_training || training.use_hpu_graphs_for_inference)
      refuse_setting(
          "HPU graphs are not for eager mode: expected use_lazy_mode true beside use_hpu_graphs_for_training or "
          "use_hpu_graphs_for_inference");
    choose(training.torch_compile ? "compile" : "eager", "--use_lazy_mode false");
  } else if (training.use_hpu_graphs_for_training) {
    choose("graph", "--use_hpu_graphs_for_training");
  } else if (training.use_lazy_mode == true) {
    choose("lazy", "--use_lazy_mode true");
  }
}

}  // namespace transom
