// SPDX-License-Identifier: Apache-2.0
// The arguments of Optimum Habana: what they set, and what contradicts.
#include <gtest/gtest.h>

#include "testing/files.h"
#include "testing/message.h"
#include "testing/temporary_folder.h"
#include "transom/training_arguments.h"

namespace transom {
namespace {

using test::message_of;
using Flags = std::vector<std::string>;

std::string refusal(const Flags& flags) {
  return message_of([&] { parse_train_arguments(flags); });
}

TEST(GaudiArguments, ChooseDeviceAndMode) {
  const auto script = [](const Flags& flags) { return parse_train_arguments(flags).script; };
  EXPECT_EQ(script({}).device, std::nullopt);
  EXPECT_EQ(script({}).mode, std::nullopt);
  EXPECT_EQ(script({"--use_habana"}).device, "hpu");
  EXPECT_EQ(script({"--use_habana", "--device", "hpu:3"}).device, "hpu:3");
  EXPECT_EQ(script({"--use_habana", "--use_lazy_mode"}).mode, "lazy");
  EXPECT_EQ(script({"--use_lazy_mode", "false"}).mode, "eager");
  EXPECT_EQ(script({"--use_lazy_mode", "false", "--torch_compile"}).mode, "compile");
  EXPECT_EQ(script({"--use_hpu_graphs_for_training"}).mode, "graph");
  EXPECT_EQ(script({"--use_hpu_graphs_for_inference"}).mode, std::nullopt);
  EXPECT_EQ(script({"--use_cpu"}).device, "cpu");
  EXPECT_EQ(parse_train_arguments({"--use_hpu_graphs"}).training.inference_mode, "graph");
  EXPECT_EQ(parse_train_arguments({"--use_habana", "false"}).device_but, "hpu");
  const TrainArguments given = parse_train_arguments({"--use_hpu_graphs_for_training"});
  EXPECT_EQ(given.training.device_arguments.flags.at("use_hpu_graphs_for_training"), true);
  EXPECT_NE(given.training.to_json().find("\"use_hpu_graphs_for_training\": true"), std::string::npos);
}

TEST(GaudiArguments, ContradictionsAreRefused) {
  EXPECT_NE(refusal({"--use_habana", "--device", "cpu"}).find("expected hpu"), std::string::npos);
  EXPECT_NE(refusal({"--use_habana", "--use_cpu"}).find("at most one"), std::string::npos);
  EXPECT_NE(refusal({"--use_habana", "false", "--device", "hpu"}).find("another device"), std::string::npos);
  EXPECT_NE(refusal({"--use_lazy_mode", "false", "--use_hpu_graphs_for_training"}).find("eager"), std::string::npos);
  EXPECT_NE(refusal({"--use_lazy_mode", "--mode", "eager"}).find("--mode lazy"), std::string::npos);
  EXPECT_NE(refusal({"--throughput_warmup_steps", "-1"}).find("throughput_warmup_steps"), std::string::npos);
}

// Every other name of GaudiTrainingArguments is taken with a sentence, or refused with one.
TEST(GaudiArguments, TheRestIsAcceptedOrRefusedWithASentence) {
  for (const char* accepted :
       {"--pipelining_fwd_bwd", "--non_blocking_data_copy", "--max_hpu_graphs=4", "--disable_tensor_cache_hpu_graphs",
        "--use_compiled_autograd", "--use_regional_compilation", "--inline_inbuilt_nn_modules", "--cache_size_limit=4",
        "--allow_unspec_int_on_nn_module", "--profiling_with_stack"})
    EXPECT_EQ(parse_train_arguments({accepted}).notes.size(), 1u) << accepted;
  for (const char* standard : {"--distribution_strategy=ddp", "--fp8=false", "--profiling_steps=0", "--ignore_eos=true",
                               "--context_parallel_size=1", "--minimize_memory=false", "--sdp_on_bf16=false"})
    EXPECT_NO_THROW(parse_train_arguments({standard})) << standard;
  for (const char* refused : {"--distribution_strategy=fast_ddp", "--fp8", "--profiling_steps=3", "--compile_dynamic",
                              "--context_parallel_size=2", "--minimize_memory", "--sdp_on_bf16", "--ignore_eos=false",
                              "--tpu_num_cores=8", "--mp_parameters=x"})
    EXPECT_GT(refusal({refused}).size(), 30u) << refused;
}

class GaudiConfig : public testing::Test {
 protected:
  Flags with(const std::string& json) const {
    test::write_file(folder_ / "gaudi_config.json", json);
    return {"--gaudi_config_name", folder_.string()};
  }
  test::TemporaryFolder folder_;
};

TEST_F(GaudiConfig, SetsThePrecision) {
  const auto bf16 = [&](const std::string& json) { return parse_train_arguments(with(json)).training.bf16; };
  EXPECT_TRUE(bf16(R"({"use_torch_autocast": true, "use_fused_adam": true, "use_fused_clip_norm": true,
                       "transformers_version": "4.38.2"})"));
  EXPECT_FALSE(bf16(R"({"use_torch_autocast": false})"));
  EXPECT_FALSE(bf16("{}"));
  EXPECT_TRUE(bf16(R"({"use_torch_autocast": true, "autocast_bf16_ops": ["softmax", "linear"],
                       "autocast_fp32_ops": ["embedding"]})"));
  const TrainArguments none =
      parse_train_arguments(with(R"({"use_torch_autocast": true, "autocast_bf16_ops": ["softmax"]})"));
  EXPECT_FALSE(none.training.bf16);
  EXPECT_EQ(none.notes.size(), 1u);
}

TEST_F(GaudiConfig, RefusesWhatItCannotDo) {
  const auto text = [&](const std::string& json) { return refusal(with(json)); };
  EXPECT_NE(text(R"({"use_torch_autocast": 1})").find("expected true or false"), std::string::npos);
  EXPECT_NE(text(R"({"autocast_fp32_ops": ["matmul"]})").find("autocast_fp32_ops"), std::string::npos);
  EXPECT_NE(text(R"({"use_dynamic_shapes": true})").find("length_buckets"), std::string::npos);
  EXPECT_NE(text(R"({"use_fused_adams": true})").find("use_fused_adam"), std::string::npos);
  EXPECT_NE(text("[]").find("object"), std::string::npos);
  EXPECT_NE(refusal({"--gaudi_config", "no/such/folder"}).find("gaudi_config.json"), std::string::npos);
}

}  // namespace
}  // namespace transom
