// SPDX-License-Identifier: Apache-2.0
// What an IPUConfig sets of a run, as the plugin reads it and as `transom train` gets it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ipu/device/settings.h"
#include "testing/files.h"
#include "testing/temporary_folder.h"
#include "transom/device_plugin.hpp"
#include "transom/training_arguments.h"

namespace transom {
namespace {

using ipu::IpuRun;
using ipu::read_ipu_run;

class IpuArguments : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"WORLD_SIZE", "RANK", "TRANSOM_IPU_CONFIG"}) ::unsetenv(name);
  }
  void TearDown() override { ::unsetenv("TRANSOM_IPU_CONFIG"); }

  std::string file(const std::string& config) {
    test::write_file(folder_ / "ipu_config.json", config);
    return (folder_ / "ipu_config.json").string();
  }
  std::string refusal(const std::string& config) {
    try {
      read_ipu_run(file(config));
      return "accepted";
    } catch (const plugin::Failure& failure) {
      EXPECT_EQ(failure.status(), TRANSOM_INVALID_ARGUMENT);
      return failure.what();
    }
  }
  // How many processes the command has to start; `found` of a launcher.
  static test::Json answer(const std::string& question, int64_t found = 1, bool launched = false) {
    const test::Json request{
        {"question", question}, {"device", "ipu"}, {"evaluates", false}, {"processes", found}, {"launched", launched}};
    return test::Json::parse(ipu::settings_of(request.dump(), [] { return int64_t{4}; }));
  }
  test::TemporaryFolder folder_;
};

TEST_F(IpuArguments, ReplicasAreReadAsTheirUsersHaveThem) {
  IpuRun replicas = read_ipu_run(file(R"({"replication_factor": 4, "replicated_tensor_sharding": true,
                                                    "inference_replication_factor": {"default": 2, "pod4": 1}})"));
  EXPECT_EQ(replicas.training, 4);
  EXPECT_EQ(replicas.inference, 2);
  EXPECT_TRUE(replicas.shards_optimizer);
  replicas =
      read_ipu_run((file(R"({"training_replication_factor": 3, "replication_factor": 8})"), folder_.path().string()));
  EXPECT_EQ(replicas.training, 3);
  EXPECT_EQ(replicas.inference, 3);
  EXPECT_EQ(read_ipu_run(file("{}")).training, 1);
}

TEST_F(IpuArguments, WhatIsWrongIsRefused) {
  EXPECT_NE(refusal(R"({"replication_factor": -1})").find("replication_factor: expected a whole number from 1 to 1024"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"replication_factor": "2"})").find("expected a whole number"), std::string::npos);
  EXPECT_NE(refusal(R"({"inference_replication_factor": {"pod4": 2}})").find("inference_replication_factor"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"replicated_tensor_sharding": true})").find("a replication_factor of at least 2, found 1"),
            std::string::npos);
  EXPECT_NE(refusal("[]").find("expected a JSON object"), std::string::npos);
  EXPECT_THROW(read_ipu_run((folder_ / "none").string()), plugin::Failure);
}

TEST_F(IpuArguments, TheFlagNamesTheFileToTheDeviceAndCutsTheState) {
  const std::string config = file(R"({"replication_factor": 2, "replicated_tensor_sharding": true})");
  TrainArguments arguments = parse_train_arguments({"--device", "ipu", "--ipu_config_name", config});
  EXPECT_STREQ(std::getenv("TRANSOM_IPU_CONFIG"), config.c_str());
  EXPECT_EQ(arguments.training.zero_stage, 1);
  EXPECT_EQ(parse_train_arguments({"--device", "ipu", "--zero_stage", "2"}).training.zero_stage, 2);
  arguments = parse_train_arguments({"--device", "cpu"});  // the file is for the other device
  EXPECT_EQ(arguments.training.zero_stage, 0);
  EXPECT_EQ(answer("processes").at("processes"), 2);
  EXPECT_EQ(answer("processes", 2, true).at("processes"), 1);  // they are there
  EXPECT_THROW(answer("processes", 3, true), plugin::Failure);
}

TEST_F(IpuArguments, TheUpdateIsTheFilesWhereNothingElseIsGiven) {
  const std::string config =
      file(R"({"gradient_accumulation_steps": 8, "recompute_checkpoint_every_layer": true, "replication_factor": 1})");
  TrainArguments arguments = parse_train_arguments({"--device", "ipu", "--ipu_config_name", config});
  EXPECT_EQ(arguments.training.gradient_accumulation_steps, 8);
  EXPECT_TRUE(arguments.training.activation_checkpointing);
  EXPECT_EQ(answer("defaults").at("gradient_checkpointing"), true);
  for (const char* given : {"1", "2"}) {  // 1 is an argument like others
    arguments =
        parse_train_arguments({"--device", "ipu", "--ipu_config_name", config, "--gradient_accumulation_steps", given});
    EXPECT_EQ(arguments.training.gradient_accumulation_steps, given[0] - '0');
  }
  arguments = parse_train_arguments({"--device", "cpu"});
  EXPECT_EQ(arguments.training.gradient_accumulation_steps, 1);
  EXPECT_FALSE(arguments.training.activation_checkpointing);
  EXPECT_EQ(parse_train_json(R"({"device": "cpu"})", "arguments.json").training.gradient_accumulation_steps, 1);
  EXPECT_NE(refusal(R"({"gradient_accumulation_steps": 0})").find("gradient_accumulation_steps: expected a whole"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"recompute_checkpoint_every_layer": 1})").find("every_layer: expected true or false, found"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
