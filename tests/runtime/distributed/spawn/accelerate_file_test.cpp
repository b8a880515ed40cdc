// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/spawn/accelerate_file.h"

#include <gtest/gtest.h>

#include "apps/cli/spawn/spawn_arguments.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

// As `accelerate config` wrote them.
constexpr const char* kFsdp = R"(compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_version: 2
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 4
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
)";
constexpr const char* kDeepSpeed = R"(compute_environment: LOCAL_MACHINE
deepspeed_config:
  gradient_accumulation_steps: 2
  gradient_clipping: 1.0
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: false
  zero_stage: 2
distributed_type: DEEPSPEED
mixed_precision: 'no'
num_machines: 2
machine_rank: 1
main_process_ip: 10.0.0.1
main_process_port: 1234
num_processes: 8
)";

TEST(AccelerateFile, OfFsdpIsRead) {
  const AccelerateFile file = parse_accelerate_file(kFsdp, "f");
  EXPECT_EQ(file.processes, 4);
  EXPECT_EQ(file.machines, 1);
  EXPECT_FALSE(file.use_mpi);
  EXPECT_EQ(file.words,
            (Words{"--gradient_checkpointing", "true", "--bf16", "true", "--fsdp", "full_shard", "--fsdp_config",
                   R"({"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "reshard_after_forward": true, )"
                   R"("state_dict_type": "SHARDED_STATE_DICT"})"}));
}

TEST(AccelerateFile, OfDeepSpeedIsRead) {
  const AccelerateFile file = parse_accelerate_file(kDeepSpeed, "f");
  EXPECT_EQ(file.processes, 8);
  EXPECT_EQ(file.machine_rank, 1);
  EXPECT_EQ(file.main_process_ip, "10.0.0.1");
  EXPECT_EQ(file.main_process_port, 1234);
  EXPECT_EQ(file.words, (Words{"--gradient_accumulation_steps", "2", "--max_grad_norm", "1.0", "--deepspeed",
                               R"({"zero_optimization": {"stage": 2}})"}));
}

TEST(AccelerateFile, OffloadIsRead) {
  EXPECT_EQ(parse_accelerate_file("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
                                  "  offload_optimizer_device: cpu\n",
                                  "f")
                .words,
            (Words{"--deepspeed", R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})"}));
  EXPECT_EQ(parse_accelerate_file("distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true, "
                                  "fsdp_sharding_strategy: FULL_SHARD}\n",
                                  "f")
                .words,
            (Words{"--fsdp", "full_shard", "--fsdp_config", R"({"offload_params": true})"}));
}

TEST(AccelerateFile, OfOtherFormsIsRead) {
  EXPECT_EQ(
      parse_accelerate_file("parallelism_config:\n  parallelism_config_tp_size: 2\n  dp_shard_size: 4\n", "f").words,
      (Words{"--parallelism_config", R"({"tp_size": 2, "dp_shard_size": 4})"}));
  const AccelerateFile mpi = parse_accelerate_file(
      "distributed_type: MULTI_CPU\nmpirun_config:\n  mpirun_hostfile: hosts\nuse_cpu: true\n", "f");
  EXPECT_TRUE(mpi.use_mpi);
  EXPECT_EQ(mpi.hostfile, "hosts");
  EXPECT_EQ(mpi.words, (Words{"--use_cpu", "true"}));
  EXPECT_EQ(
      parse_accelerate_file("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n", "f").words,
      Words());
}

TEST(AccelerateFile, NamesWhatIsNotKnownOrNotOffered) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"num_process: 3\n", "f: num_process: is not known, or not offered, did you mean 'num_processes'?"},
           {"num_processes: many\n", "num_processes: expected a whole number from 1"},
           {"mixed_precision: fp16\n", "mixed_precision: expected no or bf16, found 'fp16'"},
           {"compute_environment: AMAZON_SAGEMAKER\n", "compute_environment: expected LOCAL_MACHINE"},
           {"distributed_type: MEGATRON_LM\n", "distributed_type: expected"},
           {"distributed_type: DEEPSPEED\n", "deepspeed_config: is missing"},
           {"distributed_type: DEEPSPEED\ndeepspeed_config: {offload_param_device: cpu}\n", "offload_param_device"},
           {"distributed_type: DEEPSPEED\ndeepspeed_config: {stage: 2}\n", "deepspeed_config.stage: is not known"},
           {"distributed_type: DEEPSPEED\ndeepspeed_config: {offload_optimizer_device: nvme}\n", "kept on disks"},
           {"tpu_use_sudo: true\n", "tpu_use_sudo: expected false"},
           {"- 1\n", "expected keys with values"},
           {"", "expected keys with values"},
           {"a: [1\n", "expected YAML"},
           {"a: *b\n", "expected YAML"},
           {std::string(100000, '['), "expected YAML"}}) {
    const std::string message = test::message_of([&, &text = text] { parse_accelerate_file(text, "f"); });
    EXPECT_NE(message.find(words), message.npos) << text.substr(0, 100) << ": " << message;
  }
}

// ---- the flags beside it

class SpawnArguments : public testing::Test {
 protected:
  static SpawnPlan plan(const Words& words) {
    SpawnFlags flags;
    const auto options = flags.options();
    const auto middle = words.begin() + static_cast<std::ptrdiff_t>(spawn_words(words, options));
    parse_command_line(options, Words(words.begin(), middle));
    return plan_spawn({middle, words.end()}, flags);
  }
  static void expect_refusal(const Words& words, const std::string& text) {
    const std::string message = test::message_of([&] { plan(words); });
    EXPECT_NE(message.find(text), message.npos) << message;
  }
  test::TemporaryFolder folder_;
};

TEST_F(SpawnArguments, StandBeforeTheCommand) {
  const SpawnPlan plan = SpawnArguments::plan({"--nproc", "3", "--use_mpi", "train", "--nproc", "7"});
  EXPECT_EQ(plan.ranks, 3);
  EXPECT_TRUE(plan.use_mpi);
  EXPECT_EQ(plan.command, (Words{"train", "--nproc", "7"}));
  const SpawnPlan other = SpawnArguments::plan({"--world-size=2", "--no_prefix", "--", "date", "-u"});
  EXPECT_TRUE(other.any_program);
  EXPECT_EQ(other.command, (Words{"date", "-u"}));
  ASSERT_EQ(other.places.size(), 2u);
  EXPECT_EQ(other.places[1].local_rank, 1);
  EXPECT_EQ(other.master_address, "127.0.0.1");
}

TEST_F(SpawnArguments, GiveEachMachineItsRanks) {
  const SpawnPlan plan = SpawnArguments::plan(
      {"--world_size", "8", "--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "10.0.0.1", "train"});
  ASSERT_EQ(plan.places.size(), 4u);
  EXPECT_EQ(plan.ranks, 8);
  EXPECT_EQ(plan.places[0].rank, 4);
  EXPECT_EQ(plan.places[0].local_ranks, 4);
  EXPECT_EQ(plan.master_port, 29500);
}

TEST_F(SpawnArguments, GiveEachHostItsSlots) {
  const std::string hosts = folder_.write("hosts", "far slots=2\nlocalhost slots=2\n").string();
  SpawnPlan plan = SpawnArguments::plan({"--hostfile", hosts, "train"});
  ASSERT_EQ(plan.places.size(), 4u);
  EXPECT_EQ(plan.master_address, "far");
  EXPECT_EQ(plan.places[1].host, "far");
  EXPECT_EQ(plan.places[2].host, "");
  EXPECT_EQ(plan.places[3].local_rank, 1);
  plan = SpawnArguments::plan({"--hostfile", hosts, "--world_size", "3", "train"});
  EXPECT_EQ(plan.places.size(), 3u);
  EXPECT_EQ(plan.places[2].local_ranks, 1);
  expect_refusal({"--hostfile", hosts, "--world_size", "5", "train"}, "at most the 4 slots");
}

TEST_F(SpawnArguments, TakePrecedenceOverTheFile) {
  const std::string file = folder_.write("f.yaml", kFsdp).string();
  SpawnPlan plan = SpawnArguments::plan({"--config_file", file, "train", "--bf16", "false"});
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.command[0], "train");
  EXPECT_EQ(plan.command.back(), "false");
  plan = SpawnArguments::plan({"--config_file", file, "--num_processes", "2", "forward"});
  EXPECT_EQ(plan.ranks, 2);
  EXPECT_EQ(plan.command, Words{"forward"});
}

TEST_F(SpawnArguments, AreRefusedWhereTheyDoNotFit) {
  expect_refusal({"--nproc", "2"}, "the command is missing");
  expect_refusal({"train"}, "--nproc is missing");
  expect_refusal({"--nproc", "0", "train"}, "--nproc is missing");
  expect_refusal({"--nproc", "-2", "train"}, "--nproc: expected a number from");
  expect_refusal({"--nproc", "2", "run_glue.py"}, "expected a command of transom");
  expect_refusal({"--world_size", "3", "--num_machines", "2", "--machine_rank", "0", "train"}, "as many processes");
  expect_refusal({"--world_size", "4", "--num_machines", "2", "train"}, "--main_process_ip is missing");
  expect_refusal({"--world_size", "4", "--num_machines", "2", "--main_process_ip", "x", "train"}, "--machine_rank is");
  expect_refusal({"--nproc", "2", "--use_deepspeed", "train"}, "give transom train --deepspeed FILE");
  expect_refusal({"--nproc", "2", "--master_port", "70000", "train"}, "--master_port");
}

}  // namespace
}  // namespace transom
