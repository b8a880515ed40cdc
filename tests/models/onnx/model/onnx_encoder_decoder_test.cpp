// SPDX-License-Identifier: Apache-2.0
// A directory with encoder_model.onnx and a decoder as a model that writes the texts of the model it was made of.
#include <gtest/gtest.h>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "models/onnx/export/export_model.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/generation.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kBart = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
    "vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32,
    "is_encoder_decoder": true, "decoder_start_token_id": 2, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1})";

class OnnxEncoderDecoder : public testing::Test {
 protected:
  OnnxEncoderDecoder() : original_(Model::from_config(kBart, {.seed = 5})) {
    onnx::export_model(*original_, folder_.path(), {.with_past = true});
    write_file(folder_.path() / "config.json", kBart);
  }
  std::unique_ptr<Model> open() const { return Model::from_pretrained(folder_.path().string()); }
  static std::vector<TokenIds> texts_of(const Model& model, int64_t beams, int64_t tokens) {
    GenerationConfig config;
    config.update(R"({"decoder_start_token_id": 2, "pad_token_id": 1, "eos_token_id": 39})");
    config.num_beams = beams, config.max_new_tokens = tokens;
    const NamedTensors inputs{{"input_ids", Tensor::from(std::vector<int64_t>{5, 9, 21, 33, 7, 30, 11, 1}, {2, 4})},
                              {"attention_mask", Tensor::from(std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0}, {2, 4})}};
    return generate(model, inputs, config).sequences;
  }
  const test::TemporaryFolder folder_;
  std::unique_ptr<Model> original_;
};

TEST_F(OnnxEncoderDecoder, WritesTheTextsOfTheModel) {
  const auto model = open();
  EXPECT_EQ(model->architecture(), "BartForConditionalGeneration");
  for (const int64_t beams : {1, 3}) {
    // 28 tokens are rounded up to more than the model has positions.
    const auto expected = texts_of(*original_, beams, 28);
    EXPECT_EQ(texts_of(*model, beams, 28), expected) << beams;
  }
}

TEST_F(OnnxEncoderDecoder, TheMergedFileAloneIsEnough) {
  for (const char* name : {"decoder_model.onnx", "decoder_with_past_model.onnx"}) fs::remove(folder_.path() / name);
  for (const int64_t beams : {1, 3}) EXPECT_EQ(texts_of(*open(), beams, 20), texts_of(*original_, beams, 20)) << beams;
}

// A decoder with another model's weights behind the first token: its texts are those of neither.
TEST_F(OnnxEncoderDecoder, GoesOnFromKeysAndValues) {
  const test::TemporaryFolder other;
  onnx::export_model(*Model::from_config(kBart, {.seed = 6}), other.path(), {.with_past = true});
  const std::string name = "decoder_with_past_model.onnx";
  fs::copy_file(other.path() / name, folder_.path() / name, fs::copy_options::overwrite_existing);
  EXPECT_NE(texts_of(*open(), 1, 9), texts_of(*original_, 1, 9));
}

// Without one that fits, the whole text is read for each token.
TEST_F(OnnxEncoderDecoder, AFileThatDoesNotFitIsLeftAside) {
  const std::string name = "decoder_with_past_model.onnx";
  fs::copy_file(folder_.path() / "encoder_model.onnx", folder_.path() / name, fs::copy_options::overwrite_existing);
  EXPECT_EQ(texts_of(*open(), 2, 12), texts_of(*original_, 2, 12));
}

TEST_F(OnnxEncoderDecoder, ForwardGivesLogits) {
  const NoGradient inference;
  const NamedTensors inputs{{"input_ids", Tensor::from(std::vector<int64_t>{5, 9, 21}, {1, 3})},
                            {"decoder_input_ids", Tensor::from(std::vector<int64_t>{2, 8}, {1, 2})}};
  const std::vector<float> found = open()->forward(inputs).at("logits").to_vector<float>(),
                           expected = original_->forward(inputs).at("logits").to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST_F(OnnxEncoderDecoder, RefusesByName) {
  const NamedTensors inputs{{"input_ids", Tensor::from(std::vector<int64_t>{5, 9}, {1, 2})}};
  const auto model = open();
  EXPECT_NE(test::message_of([&] { model->forward(inputs); }).find("decoder_input_ids"), std::string::npos);
  NamedTensors padded = inputs;
  padded.set("decoder_input_ids", Tensor::from(std::vector<int64_t>{1, 2}, {1, 2}));
  padded.set("decoder_attention_mask", Tensor::from(std::vector<int64_t>{0, 1}, {1, 2}));
  GenerationConfig config;
  config.update(R"({"decoder_start_token_id": 2, "pad_token_id": 1, "eos_token_id": 39, "max_new_tokens": 2})");
  EXPECT_NE(test::message_of([&] { generate(*model, padded, config); }).find("decoder_attention_mask"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
