// SPDX-License-Identifier: Apache-2.0
// `transom plan --measure`: what a job's graph and recipes say of memory is what the card then has in use, within 3 %.
// Each job runs in a process of its own, since the card keeps the largest workspace that it ever needed.
#include <gtest/gtest.h>

#include "hpu_device.h"
#include "testing/files.h"
#include "testing/program.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

constexpr const char* kBert =
    R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 2000, "hidden_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 1024, "max_position_embeddings": 64,
        "type_vocab_size": 2})";
constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 2000, "n_embd": 192, "n_layer": 2,
        "n_head": 4, "n_positions": 64})";
constexpr const char* kLlama =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 2000, "hidden_size": 192,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512,
        "max_position_embeddings": 64})";
constexpr const char* kVit =
    R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 768, "image_size": 64, "patch_size": 8})";

struct MemoryCase {
  const char *name, *config;
  std::vector<std::string> flags;
};

class HpuPlanMemory : public testing::TestWithParam<MemoryCase> {};

TEST_P(HpuPlanMemory, IsWhatTheCardHasInUse) {
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("Intel Gaudi") == std::string::npos)
    GTEST_SKIP() << "no Gaudi here";
  test::write_file(folder.path() / "config.json", GetParam().config);
  std::vector<std::string> words{"plan", folder.path().string(), "--measure", "--json", "--device", "hpu"};
  words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
  const test::Outcome outcome = test::Program(words, folder).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const test::Json memory = test::Json::parse(outcome.output);
  EXPECT_NEAR(memory["ratio"].get<double>(), 1, 0.03) << outcome.output;
  EXPECT_GT(memory["arena_bytes"].get<int64_t>(), memory["planned_bytes"].get<int64_t>() / 20);  // the workspace counts
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, HpuPlanMemory,
    testing::Values(
        MemoryCase{"BertForward", kBert, {"--task", "infer", "--batch", "16", "--sequence", "64", "--dtype", "fp32"}},
        MemoryCase{
            "BertForwardBf16", kBert, {"--task", "infer", "--batch", "8", "--sequence", "64", "--dtype", "bf16"}},
        MemoryCase{"BertTrain", kBert, {"--task", "train", "--batch", "8", "--sequence", "64", "--dtype", "fp32"}},
        MemoryCase{"BertTrainBf16", kBert, {"--task", "train", "--batch", "8", "--sequence", "64", "--dtype", "bf16"}},
        MemoryCase{"BertMaskedPositions",
                   kBert,
                   {"--task", "train", "--batch", "8", "--sequence", "64", "--dtype", "fp32",
                    "--max_predictions_per_seq", "8"}},
        MemoryCase{"Gpt2Forward", kGpt2, {"--task", "infer", "--batch", "8", "--sequence", "64", "--dtype", "fp32"}},
        MemoryCase{
            "Gpt2TrainRecomputed",
            kGpt2,
            {"--task", "train", "--batch", "8", "--sequence", "64", "--dtype", "fp32", "--optimisations", "recompute"}},
        MemoryCase{"LlamaForward", kLlama, {"--task", "infer", "--batch", "4", "--sequence", "48", "--dtype", "fp32"}},
        MemoryCase{"LlamaTrain", kLlama, {"--task", "train", "--batch", "4", "--sequence", "48", "--dtype", "fp32"}},
        MemoryCase{"VitForward", kVit, {"--task", "infer", "--batch", "8", "--dtype", "fp32"}},
        MemoryCase{"VitTrain", kVit, {"--task", "train", "--batch", "8", "--dtype", "fp32"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
