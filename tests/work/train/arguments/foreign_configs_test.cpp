// SPDX-License-Identifier: Apache-2.0
// Configurations of DeepSpeed and Accelerate: what they set, and what is refused by name.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "transom/training_arguments.h"
#include "work/train/setup/sharding_layout.h"

namespace transom {
namespace {

TrainArguments parsed(const char* name, const std::string& config, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {name, config});
  return parse_train_arguments(more);
}

std::string config_refusal(const char* name, const std::string& config, std::vector<std::string> more = {}) {
  try {
    parsed(name, config, std::move(more));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

class ForeignConfigs : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("RANK", "0", 1);
    ::setenv("WORLD_SIZE", "8", 1);
    ::setenv("LOCAL_RANK", "0", 1);
    ::setenv("LOCAL_WORLD_SIZE", "8", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29500", 1);
  }
  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      ::unsetenv(name);
  }
};

// What Transformers documents for its Trainer.
constexpr const char* kDeepSpeed = R"({
  "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2,
           "min_loss_scale": 1},
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
    "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true},
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": false})";

TEST_F(ForeignConfigs, DeepSpeedOfTransformersIsTaken) {
  const TrainArguments arguments = parsed("--deepspeed", kDeepSpeed);
  EXPECT_EQ(arguments.training.zero_stage, 3);
  EXPECT_EQ(arguments.training.lr_scheduler_type, "linear");
  EXPECT_FALSE(arguments.notes.empty());
  const test::TemporaryFolder folder;
  write_file(folder / "ds.json", kDeepSpeed);
  EXPECT_EQ(parsed("--deepspeed", (folder / "ds.json").string()).training.zero_stage, 3);
  const std::string json = std::string("{\"deepspeed\": ") + kDeepSpeed + ", \"parallelism_config\": null}";
  EXPECT_EQ(parse_train_json(json, "args.json").training.zero_stage, 3);
  EXPECT_EQ(parse_train_json("{\"deepspeed\": null}", "args.json").training.zero_stage, 0);
}

TEST_F(ForeignConfigs, DeepSpeedMustAgreeWithTheArguments) {
  const char* stage = R"({"zero_optimization": {"stage": 2}})";
  EXPECT_EQ(parsed("--deepspeed", stage).training.zero_stage, 2);
  EXPECT_EQ(config_refusal("--deepspeed", stage, {"--zero_stage", "2"}), "accepted");
  EXPECT_EQ(config_refusal("--deepspeed", stage, {"--zero_stage", "3"}),
            "deepspeed: zero_optimization.stage: is 2, and zero_stage is 3: expected one of the two");
  EXPECT_NE(config_refusal("--deepspeed", stage, {"--fsdp", "full_shard"}), "accepted");
  EXPECT_EQ(config_refusal("--deepspeed", R"({"gradient_clipping": 0.5})"),
            "deepspeed: gradient_clipping: is 0.5, and max_grad_norm is 1: expected the same, or \"auto\"");
  EXPECT_EQ(config_refusal("--deepspeed", R"({"gradient_clipping": 0.5})", {"--max_grad_norm", "0.5"}), "accepted");
  EXPECT_EQ(config_refusal("--deepspeed", R"({"bf16": {"enabled": true}})", {"--bf16"}), "accepted");
  EXPECT_NE(config_refusal("--deepspeed", R"({"bf16": {"enabled": true}})"), "accepted");
  EXPECT_NE(config_refusal("--deepspeed", R"({"fp16": {"enabled": true}})"), "accepted");
  // 8 per device, 8 processes of which two share their rows.
  EXPECT_EQ(config_refusal("--deepspeed", R"({"train_batch_size": 32})", {"--tp_size", "2"}), "accepted");
  EXPECT_NE(config_refusal("--deepspeed", R"({"train_batch_size": 64})", {"--tp_size", "2"}), "accepted");
  EXPECT_EQ(parsed("--deepspeed", R"({"tensor_parallel": {"autotp_size": 4}})").training.tp_size, 4);
}

TEST_F(ForeignConfigs, OffloadKeepsTheStateInHostMemory) {
  for (const char* config :
       {R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true}}})",
        R"({"zero_optimization": {"stage": 1, "cpu_offload": true}})"})
    EXPECT_EQ(parsed("--deepspeed", config).training.offload_optimizer_device, "cpu") << config;
  for (const char* config : {R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}})",
                             R"({"zero_optimization": {"stage": 2, "cpu_offload": false}})"})
    EXPECT_EQ(parsed("--deepspeed", config).training.offload_optimizer_device, "none") << config;
  const auto offloads = [](const std::string& fsdp, const std::string& config) {
    TrainingArguments arguments;
    arguments.fsdp = fsdp;
    arguments.fsdp_config.text = config;
    return sharding_layout(arguments, 2).offloads_state;
  };
  EXPECT_TRUE(offloads("full_shard offload", ""));
  EXPECT_TRUE(offloads("full_shard", R"({"offload_params": true})"));
  EXPECT_TRUE(offloads("full_shard", R"({"fsdp_cpu_offload": true})"));
  EXPECT_FALSE(offloads("full_shard auto_wrap", R"({"cpu_offload": false})"));
}

TEST_F(ForeignConfigs, WhatIsNotOfferedIsRefusedByName) {
  const auto names = [](const char* config, const char* name) {
    const std::string text = config_refusal("--deepspeed", config);
    EXPECT_NE(text.find(name), std::string::npos) << text;
  };
  names(R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})", "offload_optimizer");
  names(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})", "offload_optimizer is offered");
  names(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})", "offload_param");
  names(R"({"zero_optimization": {"stage": 4}})", "zero_optimization.stage");
  names(R"({"zero_optimization": {"stag": 3}})", "did you mean 'stage'");
  names(R"({"zero_optimisation": {}})", "did you mean 'zero_optimization'");
  names(R"({"optimizer": {"type": "OneBitAdam"}})", "optimizer.type");
  names(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1}}})", "optimizer.params.lr");
  names(R"({"scheduler": {"type": "OneCycle"}})", "scheduler.type");
  names(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}})", "warmup_type");
  names(R"({"train_batch_size": -1})", "train_batch_size");
  names(R"({"zero_optimization": 3})", "expected an object");
  const TrainArguments warm =
      parsed("--deepspeed",
             R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}}})");
  EXPECT_EQ(warm.training.warmup_steps, 10);
  EXPECT_EQ(warm.training.lr_scheduler_type, "constant_with_warmup");
}

TEST_F(ForeignConfigs, ParallelismConfigIsTaken) {
  const TrainArguments all =
      parsed("--parallelism_config", R"({"dp_replicate_size": 2, "dp_shard_size": 2, "tp_size": 2, "cp_size": 1})");
  EXPECT_EQ(all.training.fsdp, "full_shard");
  EXPECT_EQ(all.training.tp_size, 2);
  EXPECT_EQ(all.training.fsdp_config.text, "{\"dp_replicate_size\": 2}");
  EXPECT_EQ(parsed("--parallelism_config", R"({"parallelism_config_cp_size": 4})").training.cp_size, 4);
  EXPECT_NE(config_refusal("--parallelism_config", R"({"dp_shard_size": 3})"), "accepted");
  EXPECT_NE(config_refusal("--parallelism_config", R"({"sp_size": 2, "cp_size": 2})").find("sp_size"),
            std::string::npos);
  EXPECT_EQ(parsed("--parallelism_config", R"({"cp_size": 2, "cp_comm_strategy": "alltoall"})").training.cp_strategy,
            "ring");
  EXPECT_NE(config_refusal("--parallelism_config", R"({"cp_comm_strategy": "ring"})").find("cp_comm_strategy"),
            std::string::npos);
  EXPECT_NE(config_refusal("--parallelism_config", R"({"tp_size": 2})", {"--tp_size", "4"}), "accepted");
  EXPECT_EQ(config_refusal("--parallelism_config", "{}"), "accepted");
}

}  // namespace
}  // namespace transom
