// SPDX-License-Identifier: Apache-2.0
// A directory of adapters is a model for every command: what describes the model is read from its base.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/cli/program.h"
#include "support/folders.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

class AdaptersOfADecoder : public testing::Test {
 protected:
  void SetUp() override {
    Model::from_config(
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 50, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64,
        "bos_token_id": 1, "eos_token_id": 49})")
        ->save_pretrained(in("base"));
    const fs::path wild = fs::path(test::source_folder()) / "tests/wild/files/convert-missing-layer";
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(wild / name, folder_ / "base" / name);
    std::string text;
    for (int i = 0; i < 40; ++i) text += "t1 t2 t3 t4 t5 t6 t7 t8\n";
    folder_.write("text.txt", text);
    const test::CommandOutcome trained =
        run("train --task text-generation --model_name_or_path " + in("base") + " --train_file " + in("text.txt") +
            " --use_peft --lora_r 4 --max_steps 2 --learning_rate 0.05 --block_size 16 "
            "--output_dir " +
            in("adapters"));
    ASSERT_EQ(trained.status, 0) << trained.output;
    ASSERT_FALSE(fs::exists(in("adapters") + "/config.json"));
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  std::string output_of(const std::string& command) const {
    const test::CommandOutcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << command << ": " << outcome.output;
    return outcome.output;
  }
  test::TemporaryFolder folder_;
};

TEST_F(AdaptersOfADecoder, AreAModelForEveryCommand) {
  const std::string adapters = in("adapters");
  output_of("merge --model " + adapters + " --output " + in("merged"));
  const auto written = [&](const std::string& model) {
    return output_of("generate --model " + model + " --do_sample false --max_new_tokens 8 't1 t2'");
  };
  EXPECT_EQ(written(adapters), written(in("merged")));
  fs::remove(folder_ / "adapters" / "tokenizer.json");  // as where PEFT saved them alone
  fs::remove(folder_ / "adapters" / "tokenizer_config.json");
  EXPECT_EQ(written(adapters), written(in("merged")));
  const auto pipeline = [&](const std::string& model) {
    return output_of("run text-generation --model " + model + " --do_sample false --max_new_tokens 8 't1 t2' --json");
  };
  EXPECT_EQ(pipeline(adapters), pipeline(in("merged")));
  output_of("convert " + adapters + " " + in("converted"));
  EXPECT_EQ(written(in("converted")), written(in("merged")));
  output_of("export " + adapters + " " + in("onnx") + " --format onnx");
  output_of("quantize " + adapters + " " + in("quantized") + " --bits 8 --group_size 16");
  EXPECT_TRUE(fs::exists(in("quantized") + "/tokenizer.json"));
  output_of("bench " + adapters + " --batch_size 1 --sequence_length 8 --iterations 1 --duration 0 --warmup_runs 0");
  output_of("explain " + adapters + " --batch_size 1 --sequence_length 8 --runs 1");
  output_of("evaluate --task text-generation --model_name_or_path " + adapters + " --validation_file " +
            in("text.txt") + " --block_size 16 --output_dir " + in("evaluation"));
}

}  // namespace
}  // namespace transom
