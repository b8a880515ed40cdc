// SPDX-License-Identifier: Apache-2.0
// Encoder-decoder models made from a configuration: token by token they say what they say at once.
#include "models/shared/encoder_decoder.h"

#include <gtest/gtest.h>

#include "models/nn/attention/cache.h"
#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kT5 = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 20,
  "d_model": 8, "d_kv": 5, "d_ff": 12, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
  "relative_attention_num_buckets": 4, "relative_attention_max_distance": 6, "feed_forward_proj": "gated-gelu"})";
constexpr const char* kBart = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 16})";
constexpr const char* kMarian = R"({"model_type": "marian", "architectures": ["MarianMTModel"],
  "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 16,
  "pad_token_id": 19, "decoder_start_token_id": 19, "scale_embedding": true})";
constexpr const char* kWhisper = R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
  "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_source_positions": 5,
  "max_target_positions": 16, "num_mel_bins": 4, "pad_token_id": 19, "decoder_start_token_id": 18})";

Tensor ids(std::vector<int64_t> values, int64_t rows) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  return Tensor::from(values, {rows, columns});
}

// What the encoder of the model reads: two rows, the second with padding where the model has any.
NamedTensors source(const Model& model) {
  if (model.architecture().starts_with("Whisper")) {
    std::vector<float> features;
    for (int i = 0; i < 2 * 4 * 10; ++i) features.push_back(static_cast<float>(i % 7) - 3);
    return {{"input_features", Tensor::from(features, {2, 4, 10})}};
  }
  return {{"input_ids", ids({3, 4, 5, 6, 7, 8, 9, 0}, 2)}, {"attention_mask", ids({1, 1, 1, 1, 1, 1, 1, 0}, 2)}};
}

class EncoderDecoderModels : public testing::TestWithParam<const char*> {};

TEST_P(EncoderDecoderModels, SayTheSameTokenByToken) {
  const auto model = Model::from_config(GetParam());
  const auto* generative = dynamic_cast<const GenerativeModel*>(model.get());
  ASSERT_NE(generative, nullptr);
  EXPECT_TRUE(generative->has_encoder());
  const std::vector<int64_t> text = {2, 11, 12, 13, 2, 4, 6, 8};
  NamedTensors inputs = source(*model);
  inputs.set("decoder_input_ids", ids(text, 2));
  const auto expected = model->forward(inputs).at("logits").to_vector<float>();  // [2, 4, 20]

  const NoGradient inference;
  KeyValueCache cache(2, {1, 1});
  ForwardContext context{.cache = &cache};
  generative->encode(source(*model), context);
  for (size_t t = 0; t < 4; ++t) {
    cache.begin(1);
    const auto place = static_cast<int64_t>(t);
    const Tensor logits = generative->next_logits({ids({text[t], text[4 + t]}, 2), ids({place, place}, 2)}, context);
    std::vector<Tensor> all = cache.tensors();
    all.push_back(logits);
    eval(all);
    cache.end();
    const auto got = logits.to_vector<float>();
    for (size_t row = 0; row < 2; ++row)
      for (size_t i = 0; i < 20; ++i)
        EXPECT_NEAR(got[row * 20 + i], expected[(row * 4 + t) * 20 + i], 1e-5) << "row " << row << " token " << t;
  }
}

// Labels alone: the decoder reads them one place later, behind the start token, padding in place of -100.
// Rows that were repeated read the source of the row that they come from, which is held once.
TEST_P(EncoderDecoderModels, BeamsReadOneSource) {
  const auto model = Model::from_config(GetParam());
  const auto* generative = dynamic_cast<const GenerativeModel*>(model.get());
  const NoGradient inference;
  NamedTensors repeated;
  for (const auto& [name, tensor] : source(*model).items())
    repeated.set(name, gather(tensor, Tensor::from(std::vector<int64_t>{0, 0, 0, 1, 1, 1}, {6}), 0));
  repeated.set("decoder_input_ids", ids({2, 11, 2, 12, 2, 13, 3, 14, 3, 15, 3, 16}, 6));
  const Tensor both = model->forward(repeated).at("logits");  // [6, 2, 20]
  const auto expected = reshape(slice(both, 1, 1, 2), {6, 20}).to_vector<float>();

  KeyValueCache cache(2, {1, 1});
  ForwardContext context{.cache = &cache};
  generative->encode(source(*model), context);
  cache.begin(1);
  generative->next_logits({ids({2, 3}, 2), ids({0, 0}, 2)}, context).to_vector<float>();
  cache.end();
  cache.repeat(3);
  cache.begin(1);
  const Tensor logits =
      generative->next_logits({ids({11, 12, 13, 14, 15, 16}, 6), ids({1, 1, 1, 1, 1, 1}, 6)}, context);
  const auto found = logits.to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
}

// Without a cache nobody has beams: another number of rows is a mistake, not a wish.
TEST_P(EncoderDecoderModels, RefuseMoreTextsThanSources) {
  const auto model = Model::from_config(GetParam());
  for (const int64_t rows : {1, 4}) {
    NamedTensors inputs = source(*model);
    inputs.set("decoder_input_ids", ids(std::vector<int64_t>(static_cast<size_t>(3 * rows), 5), rows));
    EXPECT_NE(test::message_of([&] { model->forward(inputs).at("logits").to_vector<float>(); }).find("do not fit"),
              std::string::npos)
        << rows;
  }
}

TEST_P(EncoderDecoderModels, TheDecoderReadsTheLabelsShifted) {
  const auto model = Model::from_config(GetParam());
  const int64_t start = model->config().get_int("decoder_start_token_id", GetParam() == kBart ? 2 : 0);
  const int64_t padding = model->config().get_int("pad_token_id", GetParam() == kBart ? 1 : 0);
  NamedTensors inputs = source(*model);
  inputs.set("labels", ids({5, 6, 7, 8, -100, -100}, 2));
  const float loss = model->forward(inputs).at("loss").item<float>();
  inputs.set("decoder_input_ids", ids({start, 5, 6, start, 8, padding}, 2));
  EXPECT_FLOAT_EQ(model->forward(inputs).at("loss").item<float>(), loss);
}

TEST_P(EncoderDecoderModels, NeedSomethingToDecode) {
  const auto model = Model::from_config(GetParam());
  const std::string message = test::message_of([&] { model->forward(source(*model)); });
  EXPECT_NE(message.find("decoder_input_ids"), std::string::npos) << message;
}

std::string family_name(const testing::TestParamInfo<const char*>& info) {
  constexpr const char* kNames[] = {"T5", "Bart", "Marian", "Whisper"};
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderDecoderModels, testing::Values(kT5, kBart, kMarian, kWhisper), family_name);

TEST(EncoderDecoder, RefusesVariantsByName) {
  const auto refused = [](std::string config, const std::string& field, const std::string& value) {
    config.insert(config.rfind('}'), ", \"" + field + "\": " + value);  // the last of two counts
    return test::message_of([&] { Model::from_config(config); }).find(field) != std::string::npos;
  };
  EXPECT_TRUE(refused(kBart, "normalize_before", "true"));
  EXPECT_TRUE(refused(kBart, "add_final_layer_norm", "true"));
  EXPECT_TRUE(refused(kBart, "encoder_attention_heads", "3"));
}

// Transformers reads neither of these fields: Marian's positions are always sinusoids, mBART's stacks end in a norm.
TEST(EncoderDecoder, FieldsOfOlderLibrariesChangeNothing) {
  const auto outputs = [](std::string config, const std::string& more) {
    config.insert(config.rfind('}'), more);
    const auto model = Model::from_config(config);
    NamedTensors inputs = source(*model);
    inputs.set("decoder_input_ids", ids({3, 5, 6, 3, 8, 2}, 2));
    return model->forward(inputs).at("logits").to_vector<float>();
  };
  EXPECT_EQ(outputs(kMarian, R"(, "static_position_embeddings": false)"), outputs(kMarian, ""));
  std::string mbart = kBart;
  for (size_t at = 0; (at = mbart.find("Bart", at)) != mbart.npos; at += 5) mbart.replace(at, 4, "MBart");
  mbart.replace(mbart.find("\"bart\""), 6, "\"mbart\"");
  EXPECT_EQ(outputs(mbart, R"(, "add_final_layer_norm": false)"), outputs(mbart, ""));
}

TEST(EncoderDecoder, TheLastTokenOfAKindIsChosen) {
  const Tensor hidden = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3, 1});
  EXPECT_EQ(at_last(hidden, ids({9, 9, 1, 1, 2, 3}, 2), 9).to_vector<float>(), (std::vector<float>{2, 0}));
}

}  // namespace
}  // namespace transom
