// SPDX-License-Identifier: Apache-2.0
// Families whose sequences are spread over processes, by a ring of messages or beside tensor parallel: the curve of one
// process with the whole batch.
#include <gtest/gtest.h>

#include "models/sharding/random_layouts.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

constexpr const char* kLongLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 53,
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 40, "max_position_embeddings": 32, "pad_token_id": 0})";
constexpr const char* kLongGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 53,
  "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
  "pad_token_id": 0, "eos_token_id": 1})";
constexpr const char* kLongBert = R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
  "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
  "max_position_embeddings": 32, "type_vocab_size": 2, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
  "id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 0})";

using Words = std::vector<std::string>;

struct LongCase {
  const char* name;
  const char* config;
  int64_t ranks, row_parts;  // processes, and those with rows of their own
  Words layout;
};

class LongSequences : public testing::TestWithParam<LongCase> {
 protected:
  test::TemporaryFolder folder_;
};

TEST_P(LongSequences, HaveTheCurveOfOneProcess) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const LongCase& test = GetParam();
  const bool classifies = std::string_view(test.config).find("Classification") != std::string_view::npos;
  RandomLayout layout{.config = test.config, .task = classifies ? "text-classification" : "text-generation"};
  for (int64_t row = 0; row < 24; ++row) {
    layout.rows += "{\"input_ids\": [1";
    for (int64_t i = 0; i < 6 + row % 8; ++i) layout.rows += ", " + std::to_string(3 + (row * 11 + i * i * 7) % 50);
    layout.rows += classifies ? "], \"labels\": " + std::to_string(row % 3) + "}\n" : "]}\n";
  }
  layout.ranks = test.ranks;
  layout.batch = 4 / test.row_parts;
  layout.whole_batch = 4;
  layout.layout = test.layout;
  layout.words = {"--task",          layout.task, "--max_steps",     "10", "--seed",          "7",
                  "--learning_rate", "0.002",     "--save_strategy", "no", "--max_grad_norm", "0.5",
                  "--logging_steps", "1",         "--ddp_timeout",   "300"};
  EXPECT_LE(difference_of_curves(layout, folder_.path()), 2e-6);
}

const Words kRing2{"--cp_size", "2", "--cp_strategy", "ring"}, kRing3{"--cp_size", "3", "--cp_strategy", "ring"},
    kRing4{"--cp_size", "4", "--cp_strategy", "ring"}, kSequence{"--tp_size", "2", "--sequence_parallel", "true"};
Words both(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

INSTANTIATE_TEST_SUITE_P(
    Families, LongSequences,
    testing::Values(LongCase{"LlamaInRing", kLongLlama, 2, 1, kRing2},
                    LongCase{"LlamaInRingOfFour", kLongLlama, 4, 1, kRing4},
                    LongCase{"Gpt2InRing", kLongGpt2, 3, 1, kRing3}, LongCase{"BertInRing", kLongBert, 3, 1, kRing3},
                    LongCase{"Gpt2InRingAndTensor", kLongGpt2, 4, 1, both(kRing2, {"--tp_size", "2"})},
                    LongCase{"LlamaInRingAndTensor", kLongLlama, 4, 1, both(kRing2, {"--tp_size", "2"})},
                    LongCase{"LlamaInRingAndShards", kLongLlama, 4, 2, both(kRing2, {"--fsdp", "full_shard"})},
                    LongCase{"LlamaInRingOfCheckpoints", kLongLlama, 2, 1,
                             both(kRing2, {"--gradient_checkpointing", "true"})},
                    LongCase{"LlamaInStretches", kLongLlama, 2, 1, kSequence},
                    LongCase{"Gpt2InStretches", kLongGpt2, 2, 1, kSequence},
                    LongCase{"BertInStretches", kLongBert, 2, 1, kSequence},
                    LongCase{"LlamaInStretchesOfCheckpoints", kLongLlama, 2, 1,
                             both(kSequence, {"--gradient_checkpointing", "true"})},
                    LongCase{"Gpt2InStretchesAndShards", kLongGpt2, 4, 2, both(kSequence, {"--fsdp", "full_shard"})},
                    LongCase{"LlamaInStretchesAndRing", kLongLlama, 4, 1, both(kSequence, kRing2)},
                    LongCase{"LlamaInStretchesAndStages", kLongLlama, 4, 1, both(kSequence, {"--pp_size", "2"})}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
