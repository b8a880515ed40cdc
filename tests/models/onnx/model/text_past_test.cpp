// SPDX-License-Identifier: Apache-2.0
// Decoder-only graphs that go on from keys and values write the texts of their models, however they count positions.
#include "models/onnx/model/text_past.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "models/onnx/export/export_model.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/generation.h"
#include "transom/model.h"

namespace transom {
namespace {

struct Decoder {
  const char *name, *config;
  bool one_shape;  // of every step, where no window is known of
};

constexpr const char *kMistral = R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 50,
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "sliding_window": 24, "initializer_range": 0.5, "eos_token_id": 49, "pad_token_id": 0})",
                     *kGemma2 = R"({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 50,
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 6, "initializer_range": 0.5, "eos_token_id": 49,
    "hidden_activation": "gelu_pytorch_tanh", "pad_token_id": 0})",
                     *kBloom = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 50,
    "hidden_size": 16, "n_layer": 2, "n_head": 4, "initializer_range": 0.5, "eos_token_id": 49, "pad_token_id": 0})",
                     *kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50,
    "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.5, "eos_token_id": 49,
    "pad_token_id": 0})";

class OnnxTextPast : public testing::TestWithParam<Decoder> {
 protected:
  OnnxTextPast() : original_(Model::from_config(GetParam().config, {.seed = 8})) {
    onnx::export_model(*original_, folder_.path(), {.with_past = true});
    write_file(folder_.path() / "config.json", GetParam().config);
  }
  static std::vector<TokenIds> texts_of(const Model& model, int64_t beams) {
    GenerationConfig config;
    config.num_beams = beams, config.max_new_tokens = 40;
    const NamedTensors inputs{{"input_ids", Tensor::from(std::vector<int64_t>{5, 9, 21, 33, 0, 0, 7, 30}, {2, 4})},
                              {"attention_mask", Tensor::from(std::vector<int64_t>{1, 1, 1, 1, 0, 0, 1, 1}, {2, 4})}};
    return generate(model, inputs, config).sequences;
  }
  const test::TemporaryFolder folder_;
  std::unique_ptr<Model> original_;
};

TEST_P(OnnxTextPast, WritesTheTextsOfTheModel) {
  const auto model = Model::from_pretrained(folder_.path().string());
  for (const int64_t beams : {1, 3}) EXPECT_EQ(texts_of(*model, beams), texts_of(*original_, beams)) << beams;
}

TEST_P(OnnxTextPast, IsTriedOut) {
  const auto graph = onnx::ImportedGraph::open(folder_.path() / "model.onnx");
  const onnx::TextPast plain(graph, 0, 0), with_window(graph, 40, 0);
  EXPECT_TRUE(plain.works());
  EXPECT_EQ(plain.one_shape(), GetParam().one_shape);
  EXPECT_TRUE(with_window.works());
  EXPECT_FALSE(with_window.one_shape());
}

INSTANTIATE_TEST_SUITE_P(Decoders, OnnxTextPast,
                         testing::Values(Decoder{"mistral", kMistral, true}, Decoder{"gemma2", kGemma2, false},
                                         Decoder{"bloom", kBloom, true}, Decoder{"gpt2", kGpt2, true}),
                         [](const auto& info) { return info.param.name; });

TEST(OnnxTextPast, AGraphWithoutKeysAndValuesHasNone) {
  const test::TemporaryFolder folder;
  onnx::export_model(*Model::from_config(kGpt2, {.seed = 8}), folder.path());
  EXPECT_FALSE(onnx::TextPast(onnx::ImportedGraph::open(folder.path() / "model.onnx"), 0, 0).works());
}

}  // namespace
}  // namespace transom
