// SPDX-License-Identifier: Apache-2.0
// Files of the original layouts under diffusers' names, as its from_single_file has them
// (tests/golden/make/original_layouts.py), and what is refused.
#include "files/original/original_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/test_names.h"
#include "transom/hub.h"
#include "transom/model.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

const fs::path kOriginals = test::golden_folder() / "diffusion";

Json case_of(const std::string& name) { return read_json(kOriginals / ("original-" + name + ".json")); }

// Numbers are counted on from tensor to tensor, in the order of their names.
NamedViews counted_tensors(const Json& shapes) {
  NamedViews tensors;
  int64_t next = 0;
  std::map<std::string, Json> sorted;
  for (const auto& [name, extents] : shapes.items()) sorted[name] = extents;
  for (const auto& [name, extents] : sorted) {
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Json& extent : extents) shape.push_back(extent.get<int64_t>()), count *= shape.back();
    const auto numbers = std::make_shared<std::vector<float>>();
    for (int64_t i = 0; i < count; ++i) numbers->push_back(static_cast<float>(next++));
    tensors.emplace_back(name,
                         TensorView{DType::kFloat32, shape, std::as_bytes(std::span<const float>(*numbers)), numbers});
  }
  return tensors;
}

// A pipeline with one part that has no weights.
void write_pipeline(const test::TemporaryFolder& folder, const Json& config) {
  folder.write("model_index.json", R"({"_class_name": "FluxPipeline"})");
  fs::create_directories(folder / "part");
  folder.write("part/config.json", config.dump());
}

Json summary_of(const TensorView& view) {
  Json shape = Json::array();
  for (const int64_t extent : view.shape) shape.push_back(extent);
  int64_t sum = 0, place = 0, first = 0;
  for (size_t at = 0; at < view.bytes.size(); at += sizeof(float)) {
    float number;
    std::memcpy(&number, view.bytes.data() + at, sizeof number);
    if (at == 0) first = std::llround(number);
    sum += ++place * std::llround(number);
  }
  return Json::array({shape, first, sum});
}

class OriginalCase : public testing::TestWithParam<const char*> {};

TEST_P(OriginalCase, HasTheTensorsOfDiffusers) {
  const Json golden = case_of(GetParam());
  const test::TemporaryFolder folder;
  write_pipeline(folder, golden["config"]);
  write_safetensors(folder / "anything.safetensors", counted_tensors(golden["file"]));
  const Checkpoint checkpoint = Checkpoint::open(folder / "part");
  std::map<std::string, Json> found;
  for (const auto& [name, view] : checkpoint.tensors()) found[name] = summary_of(view);
  for (const auto& [name, expected] : golden["expected"].items()) {
    const bool is_wrapped = !found.contains(name);  // newer versions of Transformers say text_model. less often
    EXPECT_EQ(found[is_wrapped ? "text_model." + name : name].dump(), expected.dump()) << name;
  }
  EXPECT_EQ(found.size(), golden["expected"].size());
  LoadReport report;
  Model::from_pretrained((folder / "part").string(), {}, &report);
  EXPECT_TRUE(report.missing.empty()) << report.missing[0];
  EXPECT_TRUE(report.unexpected.empty()) << report.unexpected[0];
}

INSTANTIATE_TEST_SUITE_P(Layouts, OriginalCase,
                         testing::Values("unets/unet", "unets/unet-xl", "controlnets/controlnet",
                                         "controlnets/controlnet-alone", "autoencoders/vae", "autoencoders/vae-alone",
                                         "transformers/sd3", "transformers/sd3-alone", "transformers/flux",
                                         "transformers/flux-alone", "texts/open-clip", "texts/open-clip-xl"),
                         [](const auto& tested) { return test::words(tested.param); });

class GgufCase : public testing::TestWithParam<const char*> {};

TEST_P(GgufCase, GivesTheOutputsOfDiffusers) {
  const fs::path golden = kOriginals / (std::string("original-") + GetParam());
  const test::TemporaryFolder folder;
  write_pipeline(folder, read_json(golden / "config.json"));
  fs::copy(golden / "network.gguf", folder / "network.gguf");
  EXPECT_EQ(resolve_model((folder / "network.gguf").string()), folder.path());
  EXPECT_EQ(resolve_model((folder / "part").string()), folder / "part");
  const auto model = Model::from_pretrained((folder / "part").string());
  EXPECT_GT(model->frozen().size(), 5u);  // in codes
  const NamedTensors outputs = model->forward(load_inputs(golden / "inputs.safetensors"));
  const std::vector<float> found = outputs.at("sample").to_vector<float>();
  const std::vector<float> expected = load_inputs(golden / "expected.safetensors").at("sample").to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(Families, GgufCase, testing::Values("flux-gguf", "sd3-gguf"),
                         [](const auto& tested) { return test::words(tested.param); });

TEST(OriginalCheckpoint, OfTwoFilesSaysWhich) {
  const Json golden = case_of("autoencoders/vae-alone");
  const test::TemporaryFolder folder;
  write_pipeline(folder, golden["config"]);
  write_safetensors(folder / "a.safetensors", counted_tensors(golden["file"]));
  write_safetensors(folder / "part" / "b.safetensors", counted_tensors(golden["file"]));
  const std::string message = test::message_of([&] { Checkpoint::open(folder / "part"); });
  EXPECT_NE(message.find("both hold weights"), message.npos) << message;
}

TEST(OriginalCheckpoint, IsNotReadInThePlaceOfOtherWeights) {
  const Json golden = case_of("autoencoders/vae-alone");
  const test::TemporaryFolder folder;
  write_pipeline(folder, golden["config"]);
  write_safetensors(folder / "a.safetensors", counted_tensors(golden["file"]));
  write_safetensors(folder / "part" / "diffusion_pytorch_model.safetensors", counted_tensors(golden["file"]));
  const std::string message = test::message_of([&] { resolve_model((folder / "a.safetensors").string()); });
  EXPECT_NE(message.find("is read, not this file"), message.npos) << message;
}

TEST(OriginalCheckpoint, RefusesRowsThatTheConfigurationDoesNotHaveAndScales) {
  const Json golden = case_of("transformers/flux-alone");
  const test::TemporaryFolder folder;
  Json narrow = golden["config"];
  narrow["attention_head_dim"] = 4;
  write_pipeline(folder, narrow);
  NamedViews tensors = counted_tensors(golden["file"]);
  write_safetensors(folder / "a.safetensors", tensors);
  const auto open = [&] { Checkpoint::open(folder / "part"); };
  EXPECT_NE(test::message_of(open).find("rows, as config.json says"), std::string::npos) << test::message_of(open);
  tensors.emplace_back("img_in.scale_weight", tensors[0].second);
  write_safetensors(folder / "a.safetensors", tensors);
  EXPECT_NE(test::message_of(open).find("img_in.scale_weight"), std::string::npos) << test::message_of(open);
}

}  // namespace
}  // namespace transom
