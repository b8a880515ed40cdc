// SPDX-License-Identifier: Apache-2.0
// Qwen2-VL beyond what the golden cases hold: positions of generation, what is refused, older files.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/files.h"
#include "base/json/json.h"
#include "models/generative.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

using Numbers = std::vector<int64_t>;

class QwenPictures : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> model = Model::from_pretrained((test::folder_of_case(GetParam()) / "model").string());
  NamedTensors inputs = load_inputs(test::folder_of_case(GetParam()) / "inputs.safetensors");
};

// Generation tells the same positions as the forward pass.
TEST_P(QwenPictures, StandWhereTheForwardPassHasThem) {
  const auto& writer = dynamic_cast<const GenerativeModel&>(*model);
  EXPECT_EQ(writer.position_axes(), 3);
  const Tensor ids = slice(inputs.at("input_ids"), 0, 0, 1), mask = slice(inputs.at("attention_mask"), 0, 0, 1);
  NamedTensors first{{"input_ids", ids},
                     {"attention_mask", mask},
                     {"pixel_values", slice(inputs.at("pixel_values"), 0, 0, 24)},
                     {"image_grid_thw", slice(inputs.at("image_grid_thw"), 0, 0, 1)}};
  const NoGradient inference;
  const std::vector<float> expected = model->forward(first).at("logits").to_vector<float>();
  const auto rows = writer.attached_inputs(first);
  ASSERT_EQ(rows.size(), 1u);
  const TextPositions positions = writer.positions_of(ModelInputs(ids.to_vector<int64_t>(), rows[0]));
  Numbers all;
  for (const Numbers& axis : positions.prompt) all.insert(all.end(), axis.begin(), axis.end());
  first.set("position_ids", Tensor::from(all, {3, 1, ids.dim(1)}));
  const std::vector<float> found = model->forward(first).at("logits").to_vector<float>();
  const Numbers counted = mask.to_vector<int64_t>();
  const size_t width = found.size() / counted.size();
  for (size_t i = 0; i < found.size(); ++i) {
    if (counted[i / width] == 0) continue;
    ASSERT_EQ(found[i], expected[i]) << i;
  }
}

TEST_P(QwenPictures, RefusesGridsThatDoNotFit) {
  const auto refused = [&](const char* name, const Tensor& tensor) {
    NamedTensors changed = inputs;
    changed.set(name, tensor);
    return test::message_of([&] { model->forward(changed); });
  };
  const auto grids = [](Numbers values) { return Tensor::from(values, {static_cast<int64_t>(values.size()) / 3, 3}); };
  EXPECT_EQ(refused("image_grid_thw", grids({1, 4, 6, 1, 6, 10, 1, 2, 2})),
            "image_grid_thw: 88 patches, and pixel_values has 92");
  for (const Numbers& wrong : {Numbers{2, 4, 6}, Numbers{1, 3, 6}, Numbers{1, 0, 2}, Numbers{1, -4, -6},
                               Numbers{1, int64_t{1} << 40, int64_t{1} << 40}})
    EXPECT_NE(refused("image_grid_thw", grids(wrong)).find("expected one frame, and multiples of 2"),
              std::string::npos);
  EXPECT_NE(refused("pixel_values", zeros({92, 95}, DType::kFloat32)).find("expected [patches, 96]"),
            std::string::npos);
}

// Files of Transformers 4: the text's fields stand beside the others, and its turning is called "mrope".
TEST_P(QwenPictures, ReadFlatConfigurations) {
  const std::filesystem::path folder = test::folder_of_case(GetParam()) / "model";
  Json config = read_json(folder / "config.json");
  Json text = config["text_config"];
  config.erase("text_config");
  text.erase("model_type");
  text["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", text["rope_parameters"]["mrope_section"]}};
  text["rope_theta"] = text["rope_parameters"]["rope_theta"];
  text.erase("rope_parameters");
  for (const auto& [key, value] : text.items()) config[key] = value;
  config["vision_config"].erase("rope_parameters");
  config["vision_config"]["in_chans"] = 3;
  const test::TemporaryFolder older;
  write_file((older / "config.json").string(), dump_json(config));
  std::filesystem::copy(folder / "model.safetensors", older / "model.safetensors");
  const std::unique_ptr<Model> flat = Model::from_pretrained(older.path().string());
  const NoGradient inference;
  EXPECT_EQ(flat->forward(inputs).at("logits").to_vector<float>(),
            model->forward(inputs).at("logits").to_vector<float>());
}

INSTANTIATE_TEST_SUITE_P(Cases, QwenPictures, testing::Values("qwen2-vl", "qwen2-5-vl", "qwen3-vl"),
                         [](const auto& of) {
                           return of.param == "qwen2-vl" ? "Qwen2Vl" : of.param == "qwen3-vl" ? "Qwen3Vl" : "Qwen25Vl";
                         });

}  // namespace
}  // namespace transom
