// SPDX-License-Identifier: Apache-2.0
// Vision-language models beyond what the golden cases hold: names of weights, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>

#include "files/config/config.h"
#include "models/generative.h"
#include "support/golden.h"
#include "support/message.h"
#include "transom/compile.h"
#include "transom/generation.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

std::string seeing_model(const char* name) { return (test::folder_of_case(name) / "model").string(); }

NamedTensors inputs_of(const char* name) { return load_inputs(test::folder_of_case(name) / "inputs.safetensors"); }

NamedTensors without(const NamedTensors& inputs, std::string_view name) {
  NamedTensors rest;
  for (const auto& [key, tensor] : inputs.items())
    if (key != name) rest.set(key, tensor);
  return rest;
}

NamedTensors with(NamedTensors inputs, const std::string& name, const Tensor& tensor) {
  inputs.set(name, tensor);
  return inputs;
}

// Parameters have the names that the checkpoint has, of whichever version of Transformers, also where it is saved
// again.
TEST(VisionLanguage, KeepsTheNamesOfItsCheckpoint) {
  const std::filesystem::path saved = std::filesystem::temp_directory_path() / "transom-llava-names";
  for (const auto& [name, tower, decoder] : {std::tuple("llava", "vision_tower.vision_model.embeddings.class_embedding",
                                                        "language_model.model.layers.1.mlp.up_proj.weight"),
                                             std::tuple("llava-qwen2", "model.vision_tower.embeddings.class_embedding",
                                                        "model.language_model.layers.1.mlp.up_proj.weight"),
                                             std::tuple("llava-model", "vision_tower.embeddings.class_embedding",
                                                        "language_model.model.layers.0.mlp.up_proj.weight")}) {
    const auto model = Model::from_pretrained(seeing_model(name));
    std::set<std::string> names;
    for (const auto& parameter : model->parameters()) names.insert(parameter->name);
    EXPECT_TRUE(names.contains(tower)) << name;
    EXPECT_TRUE(names.contains(decoder)) << name;
    model->save_pretrained(saved.string());
    LoadReport report;
    const auto again = Model::from_pretrained(saved.string(), {}, &report);
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << name;
    std::set<std::string> kept;
    for (const auto& parameter : again->parameters()) kept.insert(parameter->name);
    EXPECT_EQ(kept, names) << name;
  }
  std::filesystem::remove_all(saved);
}

TEST(VisionLanguage, RefusesOtherNumbersOfPlacesAndRows) {
  const auto model = Model::from_pretrained(seeing_model("llava"));
  const NamedTensors inputs = inputs_of("llava");
  const Tensor pixels = inputs.at("pixel_values");
  const NamedTensors fewer = with(inputs, "pixel_values", slice(pixels, 0, 0, 2));
  const std::string message =
      "input_ids: 48 places for pictures (token 700), and pixel_values makes 32 rows of features";
  EXPECT_EQ(test::message_of([&] { model->forward(fewer); }), message);
  EXPECT_EQ(test::message_of([&] { generate(*model, without(fewer, "labels"), {}); }), message);
  const Shape shape = inputs.at("input_ids").shape();
  const Tensor words = Tensor::from(std::vector<int64_t>(static_cast<size_t>(elements(shape)), 5), shape);
  const NamedTensors plain = with(inputs, "input_ids", words);
  EXPECT_NE(test::message_of([&] { model->forward(plain); }).find("0 places for pictures"), std::string::npos);
  // As many in all, but no picture may go on in the next row.
  std::vector<int64_t> ids = inputs.at("input_ids").to_vector<int64_t>();
  const auto length = static_cast<size_t>(inputs.at("input_ids").dim(1));
  *std::find(ids.begin(), ids.end(), 700) = 5;
  ids[length] = 700;
  const NamedTensors moved =
      with(without(inputs, "labels"), "input_ids", Tensor::from(ids, inputs.at("input_ids").shape()));
  EXPECT_EQ(test::message_of([&] { generate(*model, moved, {}); }),
            "input_ids: row 0 has 31 places for pictures (token 700), a picture fills 16");
  EXPECT_NE(test::message_of([&] {
              model->forward({{"inputs_embeds", zeros({3, 40, 16}, DType::kFloat32)}, {"pixel_values", pixels}});
            }).find("expected input_ids"),
            std::string::npos);
}

// A program that is compiled once knows no tokens: what it gives for others must not look right.
TEST(VisionLanguage, GivesNothingForWrongNumbersInACompiledPass) {
  const auto model = Model::from_pretrained(seeing_model("llava"));
  const NamedTensors inputs = without(inputs_of("llava"), "labels");
  const NoGradient inference;
  const std::vector<float> expected = model->forward(inputs).at("logits").to_vector<float>();
  set_mode(Mode::kCompile);
  const std::vector<float> found = model->forward(inputs).at("logits").to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
  std::vector<int64_t> ids = inputs.at("input_ids").to_vector<int64_t>();
  *std::find(ids.begin(), ids.end(), 700) = 5;
  const Tensor other = Tensor::from(ids, inputs.at("input_ids").shape());
  const std::vector<float> wrong = model->forward(with(inputs, "input_ids", other)).at("logits").to_vector<float>();
  set_mode(Mode::kLazy);
  EXPECT_TRUE(std::any_of(wrong.begin(), wrong.end(), [](float x) { return std::isnan(x); }));
}

std::unique_ptr<Model> changed(const char* field, const char* json) {
  const std::filesystem::path file = std::filesystem::path(seeing_model("llava")) / "config.json";
  Config config = Config::read(file);
  config.set_json(field, json);
  return Model::from_config(config.dump());
}

TEST(VisionLanguage, NamesFieldsThatItCannotCarryOut) {
  const auto refused = [](const char* field, const char* json) {
    return test::message_of([&] {
      const NamedTensors inputs = inputs_of("llava");
      changed(field, json)->forward(inputs);
    });
  };
  EXPECT_NE(refused("vision_feature_layer", "7").find("vision_feature_layer: 7 is none of the 3 states"),
            std::string::npos);
  EXPECT_NE(refused("vision_feature_layer", "[]").find("at least one"), std::string::npos);
  EXPECT_NE(refused("vision_feature_select_strategy", "\"cls\"").find("found 'cls'"), std::string::npos);
  EXPECT_NE(refused("vision_config", R"({"model_type": "llama"})").find("'llama' gives no image-feature-extraction"),
            std::string::npos);
  EXPECT_NE(refused("text_config", R"({"model_type": "vit"})").find("'vit' gives no feature-extraction"),
            std::string::npos);
}

// Of LLaVA-OneVision: two pictures of a text, then one alone.
TEST(VisionLanguage, SeesPicturesOfATextWithSeveralAsOnePartEach) {
  const char* name = "llava-onevision-several";
  const auto model = Model::from_pretrained(seeing_model(name));
  const NamedTensors inputs = without(inputs_of(name), "labels");
  const NoGradient inference;
  const Tensor logits = model->forward(inputs).at("logits");
  // How many each picture is with says the same as how many each text has.
  const auto told = [&](std::vector<int64_t> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return with(inputs, "batch_num_images", Tensor::from(numbers, {count}));
  };
  EXPECT_EQ(model->forward(told({2, 2, 1})).at("logits").to_vector<float>(), logits.to_vector<float>());
  EXPECT_NE(test::message_of([&] { model->forward(told({1, 1, 1})); }).find("places for pictures"), std::string::npos);
  EXPECT_NE(test::message_of([&] { model->forward(told({2, 2})); }).find("3 in all, found 2, 2"), std::string::npos);
  EXPECT_NE(test::message_of([&] {
              model->forward(told({-1, 4}));
            }).find("expected numbers from 0"),
            std::string::npos);
  // generate() takes the pictures one by one: what it writes first is what the pass holds likeliest.
  const std::vector<int64_t> kept = squeeze(slice(inputs.at("attention_mask"), 0, 0, 1), 0).to_vector<int64_t>();
  const int64_t length = std::count(kept.begin(), kept.end(), 1);
  NamedTensors first{{"input_ids", slice(slice(inputs.at("input_ids"), 0, 0, 1), 1, 0, length)},
                     {"pixel_values", slice(inputs.at("pixel_values"), 0, 0, 2)},
                     {"image_sizes", slice(inputs.at("image_sizes"), 0, 0, 2)},
                     {"batch_num_images", Tensor::from(std::vector<int64_t>{2}, {1})}};
  GenerationConfig config;
  config.max_new_tokens = 1;
  const std::vector<float> last = slice(slice(logits, 0, 0, 1), 1, length - 1, length).to_vector<float>();
  EXPECT_EQ(generate(*model, first, config).sequences.at(0).back(),
            std::max_element(last.begin(), last.end()) - last.begin());
}

// Of SigLIP 2: numbers that patches cannot have are refused, and what fills up a picture is not seen.
TEST(VisionLanguage, SeesThePatchesThatThereAre) {
  const auto model = Model::from_pretrained(seeing_model("siglip2-vision-model"));
  const NamedTensors inputs = inputs_of("siglip2-vision-model");
  const Tensor pixels = inputs.at("pixel_values"), forms = inputs.at("spatial_shapes");
  const NoGradient inference;
  const std::vector<float> seen = model->forward(inputs).at("pooler_output").to_vector<float>();
  const Tensor hidden =
      reshape(1.0 - cast(inputs.at("pixel_attention_mask"), DType::kFloat32), {pixels.dim(0), pixels.dim(1), 1});
  const std::vector<float> again =
      model->forward(with(inputs, "pixel_values", pixels + hidden)).at("pooler_output").to_vector<float>();
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(again[i], seen[i], 1e-6) << i;
  const auto refused = [&](const char* input, const Tensor& tensor) {
    return test::message_of([&] { model->forward(with(inputs, input, tensor)); });
  };
  for (const int64_t number : {int64_t{99}, int64_t{0}}) {
    const std::vector<int64_t> numbers(static_cast<size_t>(forms.dim(0)) * 2, number);
    EXPECT_NE(refused("spatial_shapes", Tensor::from(numbers, forms.shape())).find("whose product is at most"),
              std::string::npos)
        << number;
  }
  EXPECT_NE(refused("spatial_shapes", slice(forms, 1, 0, 1)).find("rows and columns"), std::string::npos);
  EXPECT_NE(refused("pixel_values", slice(pixels, 2, 0, 5)).find("expected [batch, patches, 48]"), std::string::npos);
  EXPECT_NE(test::message_of([&] { model->forward(without(inputs, "spatial_shapes")); }).find("are no square"),
            std::string::npos);
}

// A text without pictures is the decoder's.
TEST(VisionLanguage, WritesTextsWithoutPictures) {
  const auto model = Model::from_pretrained(seeing_model("llava"));
  const Tensor ids = Tensor::from(std::vector<int64_t>{1, 405, 693, 80}, {1, 4});
  GenerationConfig config;
  config.max_new_tokens = 5;
  EXPECT_EQ(generate(*model, {{"input_ids", ids}}, config).sequences.at(0).size(), 9u);
  EXPECT_EQ(dynamic_cast<const GenerativeModel&>(*model).has_encoder(), false);
}

}  // namespace
}  // namespace transom
