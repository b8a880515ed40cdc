// SPDX-License-Identifier: Apache-2.0
// Replicas of an IPUConfig learn as one with the whole batch, and each keeps a part of the optimizer's state where it
// says so.
#include <gtest/gtest.h>

#include "ipu_options.h"
#include "testing/ranks.h"

namespace transom {
namespace {

using namespace test;

using IpuReplication = test::IpuOptions;

TEST_F(IpuReplication, ReplicasAreStartedAndLearnAsOneWithTheWholeBatch) {
  save_small_model();
  const Outcome one = train("one", 8);
  ASSERT_EQ(one.status, 0) << one.error;
  configure(R"({"replication_factor": 2})");
  const Outcome two = train("two", 4);
  ASSERT_EQ(two.status, 0) << two.error;
  test::expect_same_curve(one.output, two.output, 1e-5);
  const Outcome again = train("again", 4);
  EXPECT_EQ(two.output, again.output);
  EXPECT_EQ(weights("two"), weights("again"));
}

TEST_F(IpuReplication, ReplicasOfSeveralIpusAreToldByTheFlagToo) {
  save_small_model();
  const Outcome one = train("one", 4);
  fs::create_directories(folder_ / "configuration");
  write_file(folder_ / "configuration" / "ipu_config.json",
             R"({"replication_factor": 2, "layers_per_ipu": [1, 1], "optimizer_state_offchip": true})");
  const Outcome two = train("two", 2, {"--ipu_config_name", (folder_ / "configuration").string()});
  ASSERT_EQ(two.status, 0) << two.error;
  test::expect_same_curve(one.output, two.output, 1e-5);
}

TEST_F(IpuReplication, EvaluationsAreSharedByTheReplicasOfInference) {
  save_small_model();
  const auto evaluate = [&] {
    return Program({"evaluate", "--json", "--device", "ipu", "--model_name_or_path", (folder_ / "model").string(),
                    "--validation_file", (folder_ / "rows.jsonl").string(), "--output_dir", (folder_ / "out").string()},
                   folder_)
        .wait();
  };
  const Outcome one = evaluate();
  ASSERT_EQ(one.status, 0) << one.error;
  configure(R"({"inference_replication_factor": {"default": 2}})");
  const Outcome two = evaluate();
  ASSERT_EQ(two.status, 0) << two.error;
  const auto loss = [](const Outcome& outcome) { return Json::parse(outcome.output)["eval_loss"].get<double>(); };
  EXPECT_NEAR(loss(one), loss(two), 1e-6);
}

TEST_F(IpuReplication, WhatContradictsIsRefusedWithWhatToDo) {
  save_small_model();
  const auto refusal = [&](const std::string& config, const std::vector<std::string>& more = {}) {
    configure(config);
    const Outcome outcome = train("refused", 4, more);
    EXPECT_NE(outcome.status, 0) << config;
    return outcome.error;
  };
  EXPECT_NE(refusal(R"({"replicated_tensor_sharding": true})")
                .find("replicated_tensor_sharding: expected a replication_factor of at least 2, found 1"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"replication_factor": 0})").find("replication_factor: expected a whole number from 1 to 1024"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"replicated_tensor_sharding": 3})").find("expected true or false, found '3'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"replication_factor": 8})").find("expected 8 replicas"), std::string::npos);
  EXPECT_NE(refusal(R"({"replication_factor": 2})", {"--ddp_backend", "hccl"}).find("expected gcl"), std::string::npos);
  configure(R"({"replication_factor": 4})");
  std::string said;  // by one of them
  for (const Outcome& outcome :
       test::run_ranks(test::training_words(folder_, "ipu", "refused", 4, {"--max_steps", "1"}), folder_, 2))
    said += outcome.error;
  EXPECT_NE(said.find("replication_factor: expected 4 processes, one for each replica, found 2"), std::string::npos)
      << said;
}

TEST_F(IpuReplication, ReplicasKeepThePromisesOfCollectives) {
  const fs::path certificate = folder_ / "certificate";
  const Outcome outcome =
      Program({"certify", "--device", "ipu:0", "--level", "behaviour", "--seed", "1", "--output", certificate.string()},
              folder_)
          .wait();
  const Json report = read_json(certificate / "certificate.json");
  size_t checked = 0;
  for (const Json& row : report["rows"]) {
    if (row["subject"] != "collectives") continue;
    EXPECT_EQ(row["verdict"], "pass") << row["note"] << outcome.error;
    ++checked;
  }
  EXPECT_EQ(checked, 1u) << outcome.output;
}

TEST_F(IpuReplication, ReplicasEndTogetherAndResumeToTheSameBits) {
  test::save_model_and_rows(folder_, 40);
  test::expect_that_killing_one_ends_all(folder_, [&](const std::string& output, const std::vector<std::string>& more) {
    return test::training_words(folder_, "ipu", output, 2, more);
  });
}

// Adapters alone are trained: gradients of tables are summed in another order, see below.
TEST_F(IpuReplication, ShardsOfTheStateGiveTheBitsOfTheWholeOne) {
  save_small_model();
  const std::vector<std::string> adapters{"--use_peft", "--lora_dropout", "0", "--max_grad_norm", "0"};
  const auto run = [&](const char* output, const char* config) {
    configure(config);
    const Outcome outcome = train(output, 4, adapters);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.output;
  };
  const std::string whole = run("whole", R"({"replication_factor": 2})"),
                    shards = run("shards", R"({"replication_factor": 2, "replicated_tensor_sharding": true})"),
                    both = run("both", R"({"replication_factor": 2, "replicated_tensor_sharding": true,
                                           "optimizer_state_offchip": true})");
  test::expect_same_curve(whole, shards, 1e-6);  // the norm is summed in parts
  EXPECT_EQ(both, shards);
  const auto bytes = [&](const char* output) { return read_file(folder_ / output / "adapter_model.safetensors"); };
  EXPECT_TRUE(bytes("whole") == bytes("shards"));
  EXPECT_TRUE(bytes("whole") == bytes("both"));
}

TEST_F(IpuReplication, ShardsOfTheStateLearnAsTheWholeOne) {
  save_small_model();
  configure(R"({"replication_factor": 2})");
  const Outcome whole = train("whole", 4);
  configure(R"({"replication_factor": 2, "replicated_tensor_sharding": true})");
  const Outcome shards = train("shards", 4);
  ASSERT_EQ(shards.status, 0) << shards.error;
  test::expect_same_curve(whole.output, shards.output, 1e-5);
}

TEST_F(IpuReplication, ShardsOfTheStateTakeLessMemory) {
  // With few rows the update has more on the tiles than what computes the gradients.
  Json config = Json::parse(kSmallBert);
  config["hidden_size"] = 256, config["intermediate_size"] = 1024, config["vocab_size"] = 3000;
  set_device("cpu");
  Model::from_config(config.dump(), {.seed = 3})->save_pretrained((folder_ / "model").string());
  write_rows(folder_ / "rows.jsonl", 24);
  ::setenv("TRANSOM_LOG", "memory", 1);
  const auto fullest = [&](const char* output, const char* said) {
    configure(said);
    const Outcome outcome = train(output, 1, {"--max_steps", "1"});
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return most_in(outcome.error);
  };
  const int64_t whole = fullest("whole", R"({"replication_factor": 2})"),
                halves = fullest("halves", R"({"replication_factor": 2, "replicated_tensor_sharding": true})");
  ::unsetenv("TRANSOM_LOG");
  EXPECT_LT(halves, whole);
}

}  // namespace
}  // namespace transom
