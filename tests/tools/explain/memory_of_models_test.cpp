// SPDX-License-Identifier: Apache-2.0
// The memory plan on the graphs of models: at most 1.15 of what lives at once, forward and in training.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "runtime/programs/compilation.h"
#include "support/temporary_folder.h"
#include "tools/bench/workload.h"

namespace transom {
namespace {

struct Family {
  const char* name;
  const char* config;
};

std::ostream& operator<<(std::ostream& out, const Family& family) { return out << family.name; }

constexpr Family kFamilies[] = {
    {"bert", R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 120,
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 128,
        "max_position_embeddings": 64, "type_vocab_size": 2})"},
    {"distilbert", R"({"model_type": "distilbert", "architectures": ["DistilBertForSequenceClassification"],
        "vocab_size": 120, "dim": 32, "n_layers": 3, "n_heads": 2, "hidden_dim": 128, "max_position_embeddings": 64})"},
    {"gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 120, "n_embd": 32,
        "n_layer": 3, "n_head": 2, "n_positions": 64})"},
    {"llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 120, "hidden_size": 32,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 80,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5})"},
    {"t5", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 120, "d_model": 32,
        "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "pad_token_id": 0,
        "decoder_start_token_id": 0, "eos_token_id": 1})"},
    {"vit", R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32, "patch_size": 8,
        "num_channels": 3})"},
    {"resnet", R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "num_channels": 3,
        "embedding_size": 8, "hidden_sizes": [16, 24], "depths": [2, 2], "layer_type": "basic", "hidden_act": "relu"})"},
};

class MemoryOfModels : public testing::TestWithParam<std::tuple<Family, const char*>> {};

TEST_P(MemoryOfModels, IsNearWhatLivesAtOnce) {
  const auto& [family, task] = GetParam();
  const test::TemporaryFolder folder;
  write_file(folder / "config.json", family.config);
  const RecordCompilations record;
  BenchOptions options;
  options.model = folder.string();
  options.task = task;
  options.batch_size = 3;
  options.sequence_length = 24;
  make_workload(options)->run();
  const auto compilations = record.compilations();
  ASSERT_FALSE(compilations.empty());
  for (const auto& compilation : compilations) {
    const MemoryPlan& plan = compilation->plan;
    EXPECT_GE(plan.arena_bytes, plan.live_maximum);
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.15 * static_cast<double>(plan.live_maximum))
        << compilation->graph.nodes.size() << " nodes";
  }
}

INSTANTIATE_TEST_SUITE_P(All, MemoryOfModels,
                         testing::Combine(testing::ValuesIn(kFamilies), testing::Values("forward", "train")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace transom
