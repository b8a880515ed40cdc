// SPDX-License-Identifier: Apache-2.0
// Models that are quantised and read back: what they compute stays near what they computed.
#include "models/compression/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/mt19937.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/safetensors.h"
#include "support/message.h"
#include "support/word_models.h"
#include "transom/config.h"
#include "transom/gradients.h"
#include "transom/tensor.h"

namespace transom {
namespace {

using test::message_of;

constexpr const char* kLlamaModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 12,
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": KEYS, "max_position_embeddings": 64, "initializer_range": 0.2, "rms_norm_eps": 1e-6})";

std::string llama(int key_heads) {
  std::string config = kLlamaModel;
  return config.replace(config.find("KEYS"), 4, std::to_string(key_heads));
}

void write_calibration(const fs::path& path) {
  Mt19937 random(9);
  std::string text;
  for (int i = 0; i < 900; ++i) text += "w" + std::to_string(random.randint(11)) + " ";
  write_file(path, text);
}

std::vector<float> model_logits(const std::string& model) {
  const NoGradient inference;
  const auto loaded = Model::from_pretrained(model);
  const std::vector<int64_t> ids{1, 5, 2, 9, 0, 3, 3, 8, 10, 4, 6, 1};
  return loaded->forward({{"input_ids", Tensor::from(ids, {1, 12})}}).at("logits").to_vector<float>();
}

double relative_distance(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(x[i] - y[i], 2), size += std::pow(y[i], 2);
  return std::sqrt(error / size);
}

struct Case {
  const char *method, *format;
  int64_t bits;
  bool act_order;
  int key_heads;
  double most;  // distance of the logits
};

class Quantized : public testing::TestWithParam<Case> {};

TEST_P(Quantized, ComputesNearlyTheSame) {
  const Case& c = GetParam();
  const test::TemporaryFolder folder;
  test::save_word_model(folder, llama(c.key_heads).c_str());
  write_calibration(folder / "text.txt");
  const std::string made = (folder / "made").string();
  const QuantizeReport report = quantize_model(folder.string(), made,
                                               {.method = c.method,
                                                .bits = c.bits,
                                                .group_size = 32,
                                                .format = c.format,
                                                .calibration_file = (folder / "text.txt").string(),
                                                .calibration_length = 32,
                                                .act_order = c.act_order});
  EXPECT_EQ(report.layers.size(), 14u);
  for (const auto& layer : report.layers) EXPECT_LT(layer.error, 0.2) << layer.name;
  const double found = relative_distance(model_logits(made), model_logits(folder.string()));
  EXPECT_LT(found, c.most);
  EXPECT_GT(found, 0) << "something is rounded";
  ASSERT_TRUE(report.perplexity_before && report.perplexity_after);
  EXPECT_NEAR(*report.perplexity_after / *report.perplexity_before, 1, 0.2);
}

INSTANTIATE_TEST_SUITE_P(Methods, Quantized,
                         testing::Values(Case{"rtn", "compressed-tensors", 4, false, 2, 0.5},
                                         Case{"gptq", "gptq", 4, false, 2, 0.3}, Case{"gptq", "gptq", 4, true, 2, 0.3},
                                         Case{"gptq", "gptq", 8, true, 2, 0.04},
                                         Case{"gptq", "compressed-tensors", 4, false, 2, 0.3},
                                         Case{"awq", "awq", 4, false, 2, 0.3},
                                         Case{"awq", "compressed-tensors", 4, false, 4, 0.3},
                                         Case{"smoothquant", "compressed-tensors", 8, false, 2, 0.06}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.method) + "_" + info.param.format + "_" +
                                              std::to_string(info.param.bits) + (info.param.act_order ? "_order" : "") +
                                              "_" + std::to_string(info.param.key_heads);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(GgufModels, ComputeWhatTheirModelsDo) {
  const test::TemporaryFolder folder;
  Model::from_config(llama(2), {.seed = 5})->save_pretrained(folder.string());
  const std::vector<float> expected = model_logits(folder.string());
  for (const auto& [type, most] : {std::pair<const char*, double>{"f32", 1e-6}, {"q8_0", 0.06}, {"q4_K_M", 0.4}}) {
    const std::string path = (folder / (std::string(type) + ".gguf")).string();
    const QuantizeReport report = quantize_model(folder.string(), path, {.format = "gguf", .type = type});
    EXPECT_LE(relative_distance(model_logits(path), expected), most) << type;
    EXPECT_EQ(report.layers.empty(), std::string(type) == "f32");
  }
}

TEST(GgufModels, OfGpt2AreTurned) {
  const test::TemporaryFolder folder;
  Model::from_config(test::kWordGpt2, {.seed = 5})->save_pretrained(folder.string());
  const std::string path = (folder / "made").string();
  quantize_model(folder.string(), path, {.format = "gguf", .type = "F32"});
  EXPECT_LE(relative_distance(model_logits(path + "/model.gguf"), model_logits(folder.string())), 1e-6);
}

// GPT-2 holds its weights [inputs, outputs]; GPTQ has codes for them, the others' readers do not look for any.
TEST(Quantize, OfGpt2IsByOutputs) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordGpt2);
  write_calibration(folder / "text.txt");
  const std::vector<float> expected = model_logits(folder.string());
  for (const auto& [method, act_order] : {std::pair{"rtn", false}, {"gptq", false}, {"gptq", true}}) {
    QuantizeOptions options{.method = method, .bits = 8, .group_size = 16, .format = "gptq", .act_order = act_order};
    if (options.method == "gptq") options.calibration_file = (folder / "text.txt").string();
    else options.group_size = 8;  // which is not computed from the codes
    const std::string made = (folder / (std::string(method) + (act_order ? "_order" : ""))).string();
    EXPECT_EQ(quantize_model(folder.string(), made, options).layers.size(), 4u);
    EXPECT_LE(relative_distance(model_logits(made), expected), 0.03) << method;
    const Checkpoint checkpoint = Checkpoint::open(made);
    const CompressedWeight* fc = checkpoint.find_compressed("transformer.h.0.mlp.c_fc.weight");
    ASSERT_NE(fc, nullptr);
    EXPECT_EQ(fc->matrix->layout().rows, 64);
    EXPECT_EQ(fc->matrix->layout().depth, 16);
  }
  for (const char* format : {"compressed-tensors", "awq"})
    EXPECT_NE(message_of([&] {
                quantize_model(folder.string(), (folder / "other").string(), {.group_size = 16, .format = format});
              }).find("as gpt2 does; expected gptq or gguf"),
              std::string::npos);
}

constexpr const char* kT5 = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 12,
  "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 4,
  "decoder_start_token_id": 0, "pad_token_id": 0, "is_encoder_decoder": true})";

TEST(Quantize, CalibratesEncodersAndDecoders) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, kT5);
  write_calibration(folder / "text.txt");
  const std::string made = (folder / "made").string();
  QuantizeOptions options{.method = "gptq",
                          .bits = 8,
                          .group_size = 32,
                          .calibration_file = (folder / "text.txt").string(),
                          .calibration_length = 32};
  const QuantizeReport report = quantize_model(folder.string(), made, options);
  EXPECT_EQ(report.layers.size(), 32u);
  for (const auto& layer : report.layers) EXPECT_LT(layer.error, 0.02) << layer.name;
  options.format = "gptq";
  EXPECT_NE(message_of([&] {
              quantize_model(folder.string(), made, options);
            }).find("Transformers opens no gptq of t5; expected compressed-tensors or gguf"),
            std::string::npos);
}

TEST(Quantize, RefusesTextsForModelsOfOthers) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, R"({"model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 32,
    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4})");
  const auto refusal = [&](const QuantizeOptions& options) {
    return message_of([&] { quantize_model(folder.string(), (folder / "made").string(), options); });
  };
  EXPECT_NE(
      refusal({.method = "gptq", .group_size = 32, .calibration_file = "absent"}).find("ViTModel reads pixel_values"),
      std::string::npos);
  EXPECT_NE(refusal({.group_size = 32, .format = "gptq"}).find("gptq is read of models of texts"), std::string::npos);
}

TEST(Quantize, CalibratesOnRowsAsChoices) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, R"({"model_type": "bert", "architectures": ["BertForMultipleChoice"], "vocab_size": 12,
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2})");
  write_calibration(folder / "text.txt");
  const QuantizeReport report = quantize_model(folder.string(), (folder / "made").string(),
                                               {.method = "gptq",
                                                .group_size = 32,
                                                .calibration_file = (folder / "text.txt").string(),
                                                .calibration_length = 16});
  EXPECT_EQ(report.layers.size(), 8u);  // with the pooler and the classifier
  for (const auto& layer : report.layers) EXPECT_LT(layer.error, 0.15) << layer.name;
}

// RoBERTa counts positions from behind the padding token.
TEST(Quantize, CalibratesOnTextsAsLongAsTheModelTakes) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, R"({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 12,
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "pad_token_id": 1,
    "max_position_embeddings": 18})");
  write_calibration(folder / "text.txt");
  const QuantizeReport report =
      quantize_model(folder.string(), (folder / "made").string(),
                     {.method = "gptq", .group_size = 32, .calibration_file = (folder / "text.txt").string()});
  EXPECT_EQ(report.calibration_rows, 38);  // of 900 tokens in rows of 16, two thirds
}

// Transformers leaves what ends like a module that stays, and looks for scales of the activations of some families.
TEST(Quantize, AwqHasWhatItsReadersLookFor) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder,
                        R"({"model_type": "distilbert", "architectures": ["DistilBertForSequenceClassification"],
    "vocab_size": 12, "dim": 32, "hidden_dim": 32, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 32})");
  const std::string made = (folder / "made").string();
  EXPECT_EQ(quantize_model(folder.string(), made, {.group_size = 32, .format = "awq"}).layers.size(), 6u);
  const std::vector<std::string> stay = Config::read(folder / "made" / "config.json")
                                            .get_object("quantization_config")
                                            .get_strings("modules_to_not_convert");
  EXPECT_NE(std::find(stay.begin(), stay.end(), "pre_classifier"), stay.end());

  const test::TemporaryFolder bloom;
  test::save_word_model(bloom, R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 12,
    "hidden_size": 32, "n_layer": 1, "n_head": 2})");
  quantize_model(bloom.string(), (bloom / "made").string(), {.group_size = 32, .format = "awq"});
  const SafetensorsFile file = SafetensorsFile::open(bloom / "made" / "model.safetensors");
  const NamedViews tensors = file.tensors();
  const auto scales = std::find_if(tensors.begin(), tensors.end(), [](const auto& item) {
    return item.first == "transformer.h.0.mlp.gelu_impl.scales";
  });
  ASSERT_NE(scales, tensors.end());
  EXPECT_EQ(scales->second.shape, std::vector<int64_t>{128});
  EXPECT_EQ(Checkpoint::open(bloom / "made").find("transformer.h.0.mlp.gelu_impl.scales"), nullptr);
}

// A head that shares the embedding's weight is in no file, but is a linear layer to who opens the model.
TEST(Quantize, TiedHeadsAreNamedAmongWhatStays) {
  const auto ignored = [](std::string config, const QuantizeOptions& options, const char* field) {
    const test::TemporaryFolder folder;
    test::save_word_model(folder, config.c_str());
    const std::string made = (folder / "made").string();
    quantize_model(folder.string(), made, options);
    return Config::read(folder / "made" / "config.json").get_object("quantization_config").get_strings(field);
  };
  std::string tied = llama(4);
  tied.insert(1, R"("tie_word_embeddings": true, )");
  const std::vector<std::string> head{"lm_head"};
  EXPECT_EQ(ignored(tied, {.group_size = 32}, "ignore"), head);
  EXPECT_EQ(ignored(tied, {.group_size = 32, .format = "awq"}, "modules_to_not_convert"), head);
  EXPECT_EQ(ignored(llama(4), {.group_size = 32}, "ignore"), head);
  const std::vector<std::string> masked = ignored(
      R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 12, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64})",
      {.group_size = 32}, "ignore");
  EXPECT_NE(std::find(masked.begin(), masked.end(), "cls.predictions.decoder"), masked.end());
  // A class that writes has the layer of the one that fills masks; others have names of their own for it.
  const std::string encoder = R"(, "vocab_size": 12, "hidden_size": 64, "intermediate_size": 96, "is_decoder": true,
      "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0})";
  const std::pair<std::string, const char*> others[] = {
      {R"({"model_type": "bert", "architectures": ["BertLMHeadModel"])" + encoder, "cls.predictions.decoder"},
      {R"({"model_type": "roberta", "architectures": ["RobertaForCausalLM"])" + encoder, "lm_head.decoder"},
      {R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForMaskedLM"])" + encoder,
       "cls.predictions.decoder"},
      {R"({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 12,
           "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_source_positions": 20,
           "max_target_positions": 16, "num_mel_bins": 8, "pad_token_id": 0, "eos_token_id": 1,
           "decoder_start_token_id": 2})",
       "proj_out"}};
  for (const auto& [config, layer] : others) {
    const std::vector<std::string> kept = ignored(config, {.group_size = 32}, "ignore");
    EXPECT_NE(std::find(kept.begin(), kept.end(), layer), kept.end()) << config;
    EXPECT_EQ(std::find(kept.begin(), kept.end(), "lm_head"), kept.end()) << config;
  }
}

TEST(Quantize, RefusesByTheFlag) {
  const auto refusal = [](const QuantizeOptions& options) {
    return message_of([&] { quantize_model("absent", "out", options); });
  };
  EXPECT_NE(refusal({.method = "magic"}).find("--method: expected rtn, gptq"), std::string::npos);
  EXPECT_NE(refusal({.method = "gptq"}).find("--calibration_file"), std::string::npos);
  EXPECT_NE(refusal({.format = "gguf", .type = "q9"}).find("--type: unknown type 'q9'"), std::string::npos);
  EXPECT_NE(refusal({.type = "q8_0"}).find("--type: is for --format gguf"), std::string::npos);
  EXPECT_NE(refusal({.method = "awq", .bits = 8, .calibration_file = "f"}).find("--bits"), std::string::npos);
  EXPECT_NE(refusal({.act_order = true}).find("--act_order"), std::string::npos);
  EXPECT_NE(refusal({.method = "awq", .bits = kBitsByLayer, .calibration_file = "f"}).find("has 4, found auto"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
