// SPDX-License-Identifier: Apache-2.0
// Every run of generate() among the golden cases: the ids that Transformers gives, on any device.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "models/generative.h"
#include "support/golden.h"
#include "transom/generation.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

Tensor tensor_of(const Json& value) {
  Shape shape;
  for (const Json* level = &value; level->is_array(); level = &(*level)[0])
    shape.push_back(static_cast<int64_t>(level->size()));
  std::vector<double> numbers;
  bool whole = true;
  const std::function<void(const Json&)> flatten = [&](const Json& item) {
    if (item.is_array())
      for (const Json& inner : item) flatten(inner);
    else numbers.push_back(item.get<double>()), whole = whole && item.is_number_integer();
  };
  flatten(value);
  if (whole) return Tensor::from(std::vector<int64_t>(numbers.begin(), numbers.end()), shape);
  return Tensor::from(std::vector<float>(numbers.begin(), numbers.end()), shape);
}

// "inputs.safetensors:input_features[0:2]": rows of a tensor in a file beside the case.
Tensor rows_in_file(const std::filesystem::path& folder, const std::string& place) {
  const size_t colon = place.find(':'), bracket = place.find('['), until = place.find(':', bracket);
  const NamedTensors file = load_inputs((folder / place.substr(0, colon)).string());
  return slice(file.at(place.substr(colon + 1, bracket - colon - 1)), 0, std::stoll(place.substr(bracket + 1)),
               std::stoll(place.substr(until + 1)));
}

class GoldenGeneration : public testing::TestWithParam<std::string> {};

TEST_P(GoldenGeneration, GivesTheSameIds) {
  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string());
  const Json golden = read_json(folder / "generate.json");
  int compared = 0;
  for (const Json& run : golden["runs"]) {
    if (run.value("unstable", false)) continue;
    GenerationConfig config = GenerationConfig::from_pretrained((folder / "model").string());
    config.update(dump_json(run["kwargs"]));
    NamedTensors inputs;
    for (const auto& [name, value] : run["inputs"].items())
      inputs.set(name, value.is_string() ? rows_in_file(folder, value.get<std::string>()) : tensor_of(value));
    const GenerationOutput output = generate(*model, inputs, config);
    EXPECT_EQ(output.sequences, run["sequences"].get<std::vector<TokenIds>>()) << run["name"];
    if (run.contains("sequences_scores")) {
      ASSERT_EQ(output.scores.size(), run["sequences_scores"].size()) << run["name"];
      for (size_t i = 0; i < output.scores.size(); ++i)
        EXPECT_NEAR(output.scores[i], run["sequences_scores"][i].get<double>(), 1e-3) << run["name"];
    }
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenGeneration, testing::ValuesIn(test::golden_cases("generate.json")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
