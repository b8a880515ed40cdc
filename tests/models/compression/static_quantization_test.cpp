// SPDX-License-Identifier: Apache-2.0
// Models whose layers are integers with scales from a calibration: what they compute, what their files hold, and who
// reads them how.
#include "models/compression/static_quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "files/checkpoint/checkpoint.h"
#include "models/compression/calibration/input_range.h"
#include "runtime/tensor/mode_scope.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/config.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kSmallResNet = R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
  "embedding_size": 64, "hidden_sizes": [256, 512], "depths": [2, 1], "layer_type": "bottleneck",
  "id2label": {"0": "a", "1": "b", "2": "c", "3": "d"}, "label2id": {"a": 0, "b": 1, "c": 2, "d": 3}})";
constexpr const char* kSmallViT = R"({"model_type": "vit", "architectures": ["ViTForImageClassification"],
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
  "patch_size": 8, "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}})";
constexpr const char* kSmallBert = R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 40,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
  "max_position_embeddings": 32})";

struct StaticCase {
  const char *name, *config;
  size_t layers;
};

NamedTensors batch_of(const std::string& name, int seed) {
  Mt19937 random(static_cast<uint64_t>(seed));
  if (name == "bert") {
    std::vector<int64_t> ids;
    for (int i = 0; i < 24; ++i) ids.push_back(random.randint(39));
    return {{"input_ids", Tensor::from(ids, {2, 12})}};
  }
  std::vector<float> values(2 * 3 * 32 * 32);
  random.fill_normal(values, 0, 1);
  return {{"pixel_values", Tensor::from(values, {2, 3, 32, 32})}};
}

std::vector<float> answer(const Model& model, const std::string& name, int seed) {
  const NoGradient inference;
  const NamedTensors outputs = model.forward(batch_of(name, seed));
  return outputs.items()[0].second.to_vector<float>();
}

double distance_of(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(x[i] - y[i], 2), size += std::pow(y[i], 2);
  return std::sqrt(error / size);
}

class StaticModels : public testing::TestWithParam<StaticCase> {
 protected:
  QuantizeReport quantise() {
    Model::from_config(GetParam().config, {.seed = 3})->save_pretrained(folder_.string());
    QuantizeOptions options{.method = "static", .bits = 8};
    for (int i = 0; i < 8; ++i) options.inputs.push_back(batch_of(GetParam().name, i));
    return quantize_model(folder_.string(), made(), options);
  }
  std::string made() const { return (folder_ / "made").string(); }
  test::TemporaryFolder folder_;
};

TEST_P(StaticModels, ComputeNearlyTheSameInIntegers) {
  const QuantizeReport report = quantise();
  EXPECT_EQ(report.layers.size(), GetParam().layers);
  for (const auto& layer : report.layers) EXPECT_LT(layer.error, 0.05) << layer.name;
  for (const auto& layer : report.layers) EXPECT_GT(layer.error, 0) << layer.name;
  ASSERT_TRUE(report.signal_to_noise);
  EXPECT_GT(*report.signal_to_noise, 20);
  EXPECT_EQ(report.judged_rows, 4);
  EXPECT_LT(report.bytes_after, report.bytes_before / 2);

  const auto exact = Model::from_pretrained(folder_.string());
  const auto rounded = Model::from_pretrained(made(), {.activations = "fastest"}),
             weights = Model::from_pretrained(made()),
             plain = Model::from_pretrained(made(), {.quantization = "decompressed"});
  const auto expected = answer(*exact, GetParam().name, 50), found = answer(*rounded, GetParam().name, 50),
             of_weights = answer(*weights, GetParam().name, 50);
  EXPECT_LT(distance_of(found, expected), 0.1);
  EXPECT_GT(distance_of(found, of_weights), 0) << "inputs are rounded too";
  EXPECT_LT(distance_of(of_weights, expected), 0.05);
  EXPECT_EQ(answer(*plain, GetParam().name, 50).size(), expected.size());
  EXPECT_LT(distance_of(answer(*plain, GetParam().name, 50), of_weights), 1e-5);
}

TEST_P(StaticModels, GiveTheSameBitsInAllModesAndToTwoWhoAsk) {
  quantise();
  const auto model = Model::from_pretrained(made(), {.activations = "fastest"});
  const std::vector<float> first = answer(*model, GetParam().name, 50), second = answer(*model, GetParam().name, 51);
  for (const Mode mode : {Mode::kEager, Mode::kLazy, Mode::kCompile}) {
    const ModeScope scope(mode);
    EXPECT_EQ(answer(*model, GetParam().name, 50), first);
    EXPECT_EQ(answer(*model, GetParam().name, 51), second);
  }
  std::vector<float> one, other;
  std::thread a([&] { one = answer(*model, GetParam().name, 50); });
  std::thread b([&] { other = answer(*model, GetParam().name, 51); });
  a.join(), b.join();
  EXPECT_EQ(one, first);
  EXPECT_EQ(other, second);
}

INSTANTIATE_TEST_SUITE_P(Families, StaticModels,
                         testing::Values(StaticCase{"resnet", kSmallResNet, 13}, StaticCase{"vit", kSmallViT, 13},
                                         StaticCase{"bert", kSmallBert, 13}),
                         [](const auto& info) { return std::string(info.param.name); });

// Integers have no NaN: rows whose inputs hold one are marked, in silence goes nothing.
TEST_P(StaticModels, GiveNaNForRowsThatHoldOne) {
  quantise();
  if (std::string(GetParam().name) == "bert") return;  // its inputs are whole numbers
  const auto model = Model::from_pretrained(made(), {.activations = "fastest"});
  const NoGradient inference;
  for (const float unfinite : {std::nanf(""), INFINITY, -INFINITY})
    for (const Mode mode : {Mode::kEager, Mode::kLazy, Mode::kCompile}) {
      const ModeScope scope(mode);
      const std::vector<float> clean = answer(*model, GetParam().name, 50);
      auto values = batch_of(GetParam().name, 50).at("pixel_values").to_vector<float>();
      values[values.size() / 2 + 7] = unfinite;  // in the second of two images
      const Tensor logits = model->forward({{"pixel_values", Tensor::from(values, {2, 3, 32, 32})}}).at("logits");
      const auto found = logits.to_vector<float>();
      for (size_t i = 0; i < found.size(); ++i) {
        if (i < found.size() / 2) EXPECT_EQ(found[i], clean[i]);
        else EXPECT_TRUE(std::isnan(found[i])) << i;
      }
      EXPECT_EQ(answer(*model, GetParam().name, 50), clean);
    }
}

// Puts a NaN into the named tensor of a checkpoint of one file.
void spoil(const std::string& directory, const std::string& tensor) {
  const std::filesystem::path file = std::filesystem::path(directory) / "model.safetensors";
  std::string data = read_file(file);
  uint64_t header = 0;
  std::memcpy(&header, data.data(), sizeof(header));
  const Json fields = parse_json(data.substr(8, header), file.string());
  const auto begin = fields.at(tensor).at("data_offsets").at(0).get<uint64_t>();
  const float nan = std::nanf("");
  std::memcpy(data.data() + 8 + header + begin, &nan, sizeof(nan));
  write_file(file, data);
}

TEST(StaticCheckpoints, AreRefusedWithNumbersThatIntegersWouldHide) {
  const test::TemporaryFolder folder;
  Model::from_config(kSmallViT, {.seed = 3})->save_pretrained(folder.string());
  QuantizeOptions options{.method = "static", .bits = 8};
  options.inputs.push_back(batch_of("vit", 1));
  const auto message_of_loading = [&](const std::string& tensor, const char* activations) {
    const std::string made = (folder / ("made-" + tensor)).string();
    quantize_model(folder.string(), made, options);
    spoil(made, tensor);
    return test::message_of([&] { Model::from_pretrained(made, {.activations = activations}); });
  };
  for (const std::string tensor :
       {"vit.layernorm.bias", "vit.encoder.layer.0.layernorm_before.weight", "vit.embeddings.position_embeddings",
        "vit.encoder.layer.1.output.dense.weight_scale"}) {
    const std::string message = message_of_loading(tensor, "fastest");
    EXPECT_NE(message.find(tensor), std::string::npos) << message;
    EXPECT_NE(message.find("finite"), std::string::npos) << message;
  }
  EXPECT_EQ(message_of_loading("vit.layernorm.weight", "float32"), "") << "there it shows in the results";
  // Nor are they made.
  spoil(folder.string(), "vit.layernorm.bias");
  const std::string made = (folder / "never").string();
  const std::string message = test::message_of([&] { quantize_model(folder.string(), made, options); });
  EXPECT_NE(message.find("vit.layernorm.bias"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST(StaticCheckpoints, HoldWhatCompressedTensorsReads) {
  const test::TemporaryFolder folder;
  Model::from_config(kSmallViT, {.seed = 3})->save_pretrained(folder.string());
  QuantizeOptions options{.method = "static", .bits = 8};
  options.inputs.push_back(batch_of("vit", 1));
  const std::string made = (folder / "made").string();
  quantize_model(folder.string(), made, options);
  const Config config = Config::read(made + "/config.json").get_object("quantization_config");
  EXPECT_EQ(config.get_string("quant_method"), "compressed-tensors");
  EXPECT_EQ(config.get_string("format"), "int-quantized");
  const Checkpoint checkpoint = Checkpoint::open(made);
  const CompressedWeight* weight = checkpoint.find_compressed("vit.encoder.layer.0.intermediate.dense.weight");
  ASSERT_TRUE(weight && weight->integers);
  EXPECT_EQ(weight->integers->codes.shape, (std::vector<int64_t>{96, 64}));
  EXPECT_GT(weight->integers->input_scale, 0);
  EXPECT_TRUE(checkpoint.find("vit.embeddings.patch_embeddings.projection.weight"))
      << "others read no such convolutions";
}

TEST(StaticCheckpoints, OfConvolutionsHoldTheirWindows) {
  const test::TemporaryFolder folder;
  Model::from_config(kSmallResNet, {.seed = 3})->save_pretrained(folder.string());
  QuantizeOptions options{.method = "static", .bits = 8};
  options.inputs.push_back(batch_of("resnet", 1));
  const std::string made = (folder / "made").string();
  quantize_model(folder.string(), made, options);
  const Checkpoint checkpoint = Checkpoint::open(made);
  const CompressedWeight* first = checkpoint.find_compressed("resnet.embedder.embedder.convolution.weight");
  ASSERT_TRUE(first && first->integers);
  EXPECT_EQ(first->shape, (std::vector<int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(first->integers->input_zero_point, 0) << "pictures have both signs, and what is padded is 0";
  const CompressedWeight* second =
      checkpoint.find_compressed("resnet.encoder.stages.0.layers.0.layer.0.convolution.weight");
  ASSERT_TRUE(second && second->integers);
  EXPECT_EQ(second->integers->input_zero_point, -128) << "behind a relu nothing is negative";
}

// Computing::int8 (--quantization int8) rounds convolutions of images as they come.
TEST(DynamicConvolutions, AreRoundedWhereIntegersAreAskedFor) {
  const test::TemporaryFolder folder;
  Model::from_config(kSmallResNet, {.seed = 3})->save_pretrained(folder.string());
  const auto exact = Model::from_pretrained(folder.string()),
             rounded = Model::from_pretrained(folder.string(), {.quantization = "int8"});
  const auto expected = answer(*exact, "resnet", 5), found = answer(*rounded, "resnet", 5);
  EXPECT_LT(distance_of(found, expected), 0.1);
  EXPECT_GT(distance_of(found, expected), 1e-4);
  EXPECT_EQ(answer(*exact, "resnet", 5), expected) << "the model without keeps its numbers";
}

TEST(InputRanges, StepsLoseLeast) {
  InputRange positive, mixed, outlier, nothing;
  std::vector<float> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(static_cast<float>(i) / 1000);
  positive.add(values);
  const InputRange::Steps of_positive = positive.steps(true);
  EXPECT_EQ(of_positive.zero_point, -128);
  EXPECT_NEAR(of_positive.scale, 1.0 / 255, 1e-4);
  for (float& value : values) value = value * 3 - 1;  // -1 to 2
  mixed.add(values);
  EXPECT_EQ(mixed.steps(true).zero_point, 0);
  EXPECT_NEAR(mixed.steps(true).scale, 2.0 / 127, 5e-4);
  EXPECT_NEAR(mixed.steps(false).scale, 3.0 / 255, 5e-4);
  EXPECT_NEAR(mixed.steps(false).zero_point, -128 + 85, 1);
  std::vector<float> many(100000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i % 100) / 100;
  many.push_back(1.9f);
  outlier.add(many);
  EXPECT_LT(outlier.steps(true).scale, 1.8 / 255) << "one value far out is cut";
  EXPECT_EQ(nothing.steps(true).scale, 1);
  const float infinite[] = {INFINITY, NAN, 0.5f};
  nothing.add(infinite);
  EXPECT_NEAR(nothing.steps(true).scale, 0.5 / 255, 1e-3);
}

TEST(StaticQuantization, RefusesByTheFlag) {
  const auto refusal = [](const QuantizeOptions& options) {
    return test::message_of([&] { quantize_model("absent", "out", options); });
  };
  EXPECT_NE(refusal({.method = "static", .bits = 4}).find("--bits"), std::string::npos);
  EXPECT_NE(refusal({.method = "static", .bits = 8}).find("--calibration_file"), std::string::npos);
}

}  // namespace
}  // namespace transom
