// SPDX-License-Identifier: Apache-2.0
// transom generate and transom forward with a model that is spread over processes: the answers of one process.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::Outcome;
using Words = std::vector<std::string>;

struct Case {
  const char* name;
  const char* config;
};
// Uneven vocabularies; keys of fewer heads than queries; a head that is the table of tokens.
constexpr Case kLlama{"Llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 53,
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 48, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2})"};
constexpr Case kGpt2{"Gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 53,
  "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2})"};
constexpr Case kPhi3{"Phi3", R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 53,
  "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
  "intermediate_size": 37, "max_position_embeddings": 64, "original_max_position_embeddings": 64, "pad_token_id": 0,
  "bos_token_id": 1, "eos_token_id": 2})"};
constexpr Case kGptBigCode{"GptBigCode", R"({"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"],
  "vocab_size": 53, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_inner": 37, "n_positions": 64, "bos_token_id": 1,
  "eos_token_id": 2})"};
constexpr Case kMixtral{"Mixtral", R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
  "vocab_size": 53, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 48, "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 64,
  "bos_token_id": 1, "eos_token_id": 2})"};

constexpr Case kT5{"T5", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 53,
  "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3, "feed_forward_proj": "gated-gelu",
  "tie_word_embeddings": false, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0})"};
constexpr Case kBart{"Bart", R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 53, "d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3,
  "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
  "init_std": 0.4, "is_encoder_decoder": true, "decoder_start_token_id": 2, "pad_token_id": 1, "bos_token_id": 0,
  "eos_token_id": 2})"};

class ShardedInferenceTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    set_device("cpu");
    Model::from_config(GetParam().config, {.seed = 3})->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "prompts.jsonl", R"({"input_ids": [[1, 17, 9, 30]]}
{"input_ids": [[1, 4, 44, 21, 8], [0, 0, 1, 50, 11]], "attention_mask": [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]}
)");
  }
  std::string generated(const char* output, int ranks, Words more) const {
    Words words{"generate",
                "--device",
                "cpu",
                "--model",
                (folder_ / "model").string(),
                "--inputs",
                (folder_ / "prompts.jsonl").string(),
                "--outputs",
                (folder_ / output).string(),
                "--max_new_tokens",
                "12"};
    words.insert(words.end(), more.begin(), more.end());
    for (const Outcome& outcome : test::run_ranks(words, folder_, ranks)) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return read_file(folder_ / output);
  }

  test::TemporaryFolder folder_;
};

TEST_P(ShardedInferenceTest, GeneratesWhatOneProcessGenerates) {
  const std::string one = generated("one", 1, {});
  EXPECT_EQ(generated("two", 2, {"--tp_size", "2"}), one);
  EXPECT_EQ(generated("beams", 2, {"--tp_size", "2", "--num_beams", "3"}), generated("lone", 1, {"--num_beams", "3"}));
  if (std::string_view(GetParam().name) == "Mixtral") {
    EXPECT_EQ(generated("experts", 2, {"--ep_size", "2"}), one);
  }
  const Words drawn{"--do_sample", "--seed", "7", "--top_k", "9"};
  Words spread = drawn;
  spread.insert(spread.end(), {"--tp_size", "2"});
  EXPECT_EQ(generated("drawn", 2, spread), generated("draws", 1, drawn));
}

// Prompts of embeddings, 0.1 x (column mod 7) - 0.3 and so on, and what is written behind them.
TEST_P(ShardedInferenceTest, EmbeddingsGiveWhatTheyGiveOneProcess) {
  if (std::string_view(GetParam().config).find("ConditionalGeneration") != std::string_view::npos)
    GTEST_SKIP() << "its encoder reads the prompt";
  const bool wide = std::string_view(GetParam().config).find("\"hidden_size\": 32") != std::string_view::npos;
  Json rows = Json::array();
  for (int t = 0; t < 5; ++t) {
    rows.push_back(Json::array());
    for (int d = 0; d < (wide ? 32 : 24); ++d)
      rows[static_cast<size_t>(t)].push_back(0.1 * ((d * 5 + t * 3) % 7) - 0.3);
  }
  write_file(folder_ / "prompts.jsonl", dump_json({{"inputs_embeds", {rows}}}) + "\n" +
                                            dump_json({{"inputs_embeds", {rows}}, {"input_ids", {{4, 5, 6, 7, 8}}}}) +
                                            "\n");
  const std::string one = generated("one", 1, {});
  const Json first = parse_json(one.substr(0, one.find('\n')), "the first line");
  EXPECT_LE(first["sequences"][0].size(), 12u);  // what is written alone
  EXPECT_EQ(generated("two", 2, {"--tp_size", "2"}), one);
  EXPECT_EQ(generated("stages", 2, {"--pp_size", "2"}), one);
}

TEST_P(ShardedInferenceTest, StagesGenerateWhatOneProcessGenerates) {
  const std::string one = generated("one", 1, {});
  EXPECT_EQ(generated("two", 2, {"--pp_size", "2"}), one);
  EXPECT_EQ(generated("beams", 2, {"--pp_size", "2", "--num_beams", "3"}), generated("lone", 1, {"--num_beams", "3"}));
  if (std::string_view(GetParam().name) == "Llama") {
    EXPECT_EQ(generated("four", 4, {"--pp_size", "2", "--tp_size", "2"}), one);
  }
}

// One clock ends the texts of all: clocks of their own would leave some waiting for others.
TEST_P(ShardedInferenceTest, AClockEndsAllProcesses) {
  const std::string none = generated("none", 2, {"--tp_size", "2", "--max_time", "0"});
  const Json first = parse_json(none.substr(0, none.find('\n')), "the first line");
  // One token behind the prompt, or behind what a decoder begins with.
  const bool encodes = std::string_view(GetParam().config).find("ConditionalGeneration") != std::string_view::npos;
  EXPECT_EQ(first["sequences"][0].size(), (encodes ? 1 : 4) + 1u);
  EXPECT_EQ(generated("two", 2, {"--tp_size", "2", "--max_time", "1000"}), generated("one", 1, {}));
}

TEST_P(ShardedInferenceTest, ForwardGivesTheLogitsAndGradientsOfOneProcess) {
  const auto file_of = [&](const char* name) { return (folder_ / name).string(); };
  const auto ids = std::make_shared<const std::vector<std::byte>>(
      Tensor::from(std::vector<int64_t>{1, 17, 9, 30, 5, 6, 7, 8, 1, 3}, {2, 5}).to_bytes());
  const TensorView view{DType::kInt64, {2, 5}, *ids, ids};
  write_safetensors(file_of("in.safetensors"), {{"input_ids", view}, {"labels", view}}, {});
  const auto run = [&](const char* outputs, const char* gradients, int ranks, const Words& more) {
    Words words{"forward",
                "--device",
                "cpu",
                "--model",
                file_of("model"),
                "--inputs",
                file_of("in.safetensors"),
                "--outputs",
                file_of(outputs),
                "--gradients",
                file_of(gradients)};
    words.insert(words.end(), more.begin(), more.end());
    for (const Outcome& outcome : test::run_ranks(words, folder_, ranks)) EXPECT_EQ(outcome.status, 0) << outcome.error;
  };
  run("one", "one_gradients", 1, {});
  run("two", "two_gradients", 2, {"--tp_size", "2"});
  run("stages", "stages_gradients", 2, {"--pp_size", "2"});
  for (const auto& [left, right] : {std::pair("one", "two"), std::pair("one_gradients", "two_gradients"),
                                    std::pair("one", "stages"), std::pair("one_gradients", "stages_gradients")}) {
    const SafetensorsFile a = SafetensorsFile::open(folder_ / left), b = SafetensorsFile::open(folder_ / right);
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (const auto& [name, one] : a.tensors()) {
      const TensorView* two = b.find(name);
      ASSERT_TRUE(two) << name;
      ASSERT_EQ(one.shape, two->shape) << name;
      const auto x = Tensor::from_bytes(one.bytes, {one.dtype, one.shape}).to_vector<float>();
      const auto y = Tensor::from_bytes(two->bytes, {two->dtype, two->shape}).to_vector<float>();
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 3e-5 * (1 + std::abs(x[i]))) << name << " " << i;
    }
  }
}

TEST_P(ShardedInferenceTest, RefusesAnotherNumberOfProcesses) {
  if (std::string_view(GetParam().name) != "Llama") GTEST_SKIP() << "the same for all";
  const Outcome outcome = test::run_ranks(
      {"generate", "--device", "cpu", "--model", (folder_ / "model").string(), "--inputs",
       (folder_ / "prompts.jsonl").string(), "--outputs", (folder_ / "none").string(), "--tp_size", "3"},
      folder_, 1)[0];
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.error.find("--tp_size 3 x --pp_size 1 x --ep_size 1"), std::string::npos) << outcome.error;
}

INSTANTIATE_TEST_SUITE_P(Families, ShardedInferenceTest,
                         testing::Values(kLlama, kGpt2, kPhi3, kGptBigCode, kMixtral, kT5, kBart),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
