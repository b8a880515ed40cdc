// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/sharding_layout.h"

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

// Words of --fsdp, as Transformers has them.
void read_fsdp(const std::string& text, ShardingLayout& layout) {
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ' && c != ',' && c != '[' && c != ']' && c != '"' && c != '\'') {
      word += c;
      continue;
    }
    if (word == "full_shard" || word == "true" || word == "True") layout.zero_stage = 3;
    else if (word == "shard_grad_op") layout.zero_stage = 3, layout.reshard_after_forward = false;
    else if (word == "offload") layout.offloads_state = true;
    else if (!word.empty() && word != "auto_wrap" && word != "null" && word != "false" && word != "False")
      fail(ErrorKind::kUsage, "fsdp: expected full_shard, shard_grad_op, offload or auto_wrap, found {}", quoted(word));
    word.clear();
  }
}

void read_fsdp_config(const std::string& text, ShardingLayout& layout, int64_t& replicas) {
  const Json config = parse_json(text, "fsdp_config");
  if (!config.is_object()) fail(ErrorKind::kUsage, "fsdp_config: expected an object");
  for (auto item = config.begin(); item != config.end(); ++item) {
    std::string name = item.key();
    if (name.starts_with("fsdp_")) name = name.substr(5);
    const Json& value = item.value();
    const auto refuse_unless = [&](bool accepted, std::string_view expected) {
      if (!accepted) fail(ErrorKind::kUsage, "fsdp_config: {}: expected {}, found {}", name, expected, value.dump());
    };
    if (name == "reshard_after_forward") {
      if (value.is_boolean()) layout.reshard_after_forward = value.get<bool>();
      else if (value == "full_shard") layout.reshard_after_forward = true;
      else if (value == "shard_grad_op") layout.reshard_after_forward = false;
      else refuse_unless(false, "a bool, full_shard or shard_grad_op");
    } else if (name == "version") {
      refuse_unless(value == 2 || value == 1, "1 or 2");
    } else if (name == "dp_replicate_size") {
      refuse_unless(value.is_number_integer() && value.get<int64_t>() > 0, "a number above 0");
      replicas = value.get<int64_t>();
    } else if (name == "cpu_offload" || name == "offload_params") {
      refuse_unless(value.is_boolean(), "a bool");
      layout.offloads_state |= value.get<bool>();
    } else if (name == "state_dict_type") {
      refuse_unless(value == "FULL_STATE_DICT" || value == "SHARDED_STATE_DICT",
                    "FULL_STATE_DICT or SHARDED_STATE_DICT");
      layout.whole_checkpoints = value == "FULL_STATE_DICT";
    } else if (name.starts_with("xla")) {
      refuse_unless(value == false || value.empty(), "nothing: Transom does not use XLA");
    } else {
      // What concerns how PyTorch wraps modules has no effect: parameters are gathered one by one before they are used.
      constexpr std::string_view kNoEffect[] = {"auto_wrap_policy",  "transformer_layer_cls_to_wrap",
                                                "min_num_params",    "cpu_ram_efficient_loading",
                                                "use_orig_params",   "sync_module_states",
                                                "limit_all_gathers", "forward_prefetch",
                                                "backward_prefetch"};
      bool known = name == "activation_checkpointing" && value == false;
      for (const std::string_view each : kNoEffect) known |= name == each;
      if (!known)
        fail(ErrorKind::kUsage, "fsdp_config: {} is not known, or not offered with {}", quoted(name), value.dump());
    }
  }
}

}  // namespace

ShardingLayout sharding_layout(const TrainingArguments& arguments, int64_t ranks) {
  ShardingLayout layout;
  layout.zero_stage = static_cast<int>(arguments.zero_stage);
  if (!arguments.fsdp.empty() && arguments.zero_stage > 0 && arguments.zero_stage != 3)
    fail(ErrorKind::kUsage, "fsdp and zero_stage {}: expected one of the two", arguments.zero_stage);
  layout.offloads_state = arguments.offload_optimizer_device == "cpu";
  read_fsdp(arguments.fsdp, layout);
  int64_t replicas = 1;
  if (!arguments.fsdp_config.text.empty()) {
    // Files that Transformers wrote have a fsdp_config in any case.
    if (layout.zero_stage < 3) log(LogLevel::kWarning, "fsdp_config has no effect without fsdp or zero_stage 3");
    else read_fsdp_config(arguments.fsdp_config.text, layout, replicas);
  }
  if (arguments.pp_size > 1 && layout.whole_checkpoints)
    fail(ErrorKind::kUsage, "pp_size: expected state_dict_type SHARDED_STATE_DICT, found FULL_STATE_DICT");
  if (arguments.pp_size > 1 && arguments.neftune_noise_alpha.value_or(0) > 0)
    fail(ErrorKind::kUsage, "pp_size: neftune_noise_alpha is not offered in a pipeline");
  const bool interleaved = arguments.pipeline_schedule == "interleaved";
  if (arguments.pp_chunks > 1 && !(interleaved && arguments.pp_size > 1))
    fail(ErrorKind::kUsage, "pp_chunks {}: expected pp_size above 1 and pipeline_schedule interleaved",
         arguments.pp_chunks);
  if (interleaved && arguments.pp_size > 1 && arguments.pp_chunks == 1)
    fail(ErrorKind::kUsage, "pipeline_schedule interleaved: expected pp_chunks, the stages of a process, of 2 or more");
  layout.schedule = interleaved                              ? PipelineSchedule::kInterleaved
                    : arguments.pipeline_schedule == "gpipe" ? PipelineSchedule::kGPipe
                                                             : PipelineSchedule::k1F1B;
  layout.chunks = arguments.pp_chunks;
  layout.context = arguments.cp_strategy == "ring"        ? ContextStrategy::kRing
                   : arguments.cp_strategy == "allgather" ? ContextStrategy::kKeys
                                                          : ContextStrategy::kHeads;
  if (arguments.sequence_parallel && arguments.tp_size == 1)
    fail(ErrorKind::kUsage,
         "sequence_parallel: expected tp_size above 1, whose processes share the sequences, found 1");
  layout.sequence_parallel = arguments.sequence_parallel;
  layout.set(MeshAxis::kTensor, arguments.tp_size);
  layout.set(MeshAxis::kPipeline, arguments.pp_size);
  layout.set(MeshAxis::kContext, arguments.cp_size);
  layout.set(MeshAxis::kExpert, arguments.ep_size);
  const int64_t others = arguments.tp_size * arguments.pp_size * arguments.cp_size * arguments.ep_size;
  if (others > ranks || ranks % others != 0)
    fail(ErrorKind::kUsage,
         "tp_size {} x pp_size {} x cp_size {} x ep_size {}: expected a divisor of the {} processes, found {}",
         arguments.tp_size, arguments.pp_size, arguments.cp_size, arguments.ep_size, ranks, others);
  const int64_t rest = ranks / others;
  if (rest % replicas != 0)
    fail(ErrorKind::kUsage, "fsdp_config: dp_replicate_size: expected a divisor of {}, found {}", rest, replicas);
  layout.set(MeshAxis::kData, layout.zero_stage > 0 ? replicas : rest);
  layout.set(MeshAxis::kShard, layout.zero_stage > 0 ? rest / replicas : 1);
  return layout;
}

}  // namespace transom
