// SPDX-License-Identifier: Apache-2.0
// Checkpoints that TensorFlow and Flax wrote: the outputs of the classes that wrote them. And
// golden models written for these classes and read again: the same weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "files/foreign/foreign_writer.h"
#include "models/save_configuration.h"
#include "support/golden_cases.h"
#include "support/temporary_folder.h"
#include "transom/config.h"
#include "transom/model.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

class GoldenFormat : public testing::TestWithParam<std::string> {};

TEST_P(GoldenFormat, GivesTheOutputsOfItsLibrary) {
  const std::filesystem::path folder = test::folder_of_case(GetParam(), test::GoldenSet::kFormats);
  const Json tolerance = read_json(folder / "case.json")["tolerance"];
  LoadReport report;
  const auto model = Model::from_pretrained((folder / "model").string(), {}, &report);
  EXPECT_EQ(report.missing, std::vector<std::string>{});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{});

  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  const NamedTensors outputs = model->forward(inputs);
  const auto mask = inputs.at("attention_mask").to_vector<int64_t>();
  const Shape rows = inputs.at("attention_mask").shape();
  for (const auto& [name, tensor] : load_inputs(folder / "expected.safetensors").items()) {
    const Tensor& output = outputs.at(name);
    ASSERT_EQ(output.shape(), tensor.shape()) << name;
    const auto got = output.to_vector<double>(), expected = tensor.to_vector<double>();
    const double atol = tolerance[name]["atol"], rtol = tolerance[name]["rtol"];
    const bool by_place = tensor.rank() >= 2 && tensor.dim(0) == rows[0] && tensor.dim(1) == rows[1];
    const size_t row = expected.size() / (by_place ? mask.size() : 1);
    for (size_t i = 0; i < expected.size(); ++i)
      if (!by_place || mask[i / row] != 0) {
        ASSERT_LE(std::abs(got[i] - expected[i]), atol + rtol * std::abs(expected[i])) << name << " at " << i;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenFormat,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kFormats)),
                         test::NameOfCase());

class GoldenConversion : public testing::TestWithParam<std::string> {
 protected:
  // What a model of the golden case becomes in a form; nothing where Transformers has no class for it.
  static void expect_same_again(const Model& model, ForeignFormat format) {
    const test::TemporaryFolder folder;
    const NamedViews weights = stored_weights(model);
    try {
      write_foreign_checkpoint(folder, weights, {model.config().get_string("model_type", ""), model.architecture()},
                               format, 1 << 20);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUnsupported) return;
      throw;
    }
    save_configuration(model, folder.string());
    LoadReport report;
    const auto again = Model::from_pretrained(folder.string(), {}, &report);
    // Counts of batches, which only PyTorch keeps, and sinusoids, which other libraries compute anew.
    const bool has_sinusoids = model.config().get_string("model_type", "") == "marian";
    const auto is_computed = [&](const std::string& name) {
      return name.ends_with(".num_batches_tracked") || (has_sinusoids && name.ends_with("embed_positions.weight"));
    };
    for (const std::string& name : report.missing) EXPECT_TRUE(is_computed(name)) << name;
    EXPECT_EQ(report.unexpected, std::vector<std::string>{});
    std::map<std::string, TensorView> found;
    for (const auto& [name, view] : stored_weights(*again)) found.emplace(name, view);
    for (const auto& [name, view] : weights) {
      const auto same = found.find(name);
      if (same == found.end() || name.ends_with(".num_batches_tracked")) {
        EXPECT_TRUE(is_computed(name)) << name;
        continue;
      }
      const auto &a = same->second.bytes, &b = view.bytes;
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << name;
    }
  }
};

TEST_P(GoldenConversion, TensorFlowAndFlaxHaveTheSameWeights) {
  const auto model = Model::from_pretrained((test::folder_of_case(GetParam()) / "model").string());
  expect_same_again(*model, ForeignFormat::kKeras);
  expect_same_again(*model, ForeignFormat::kFlax);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenConversion, testing::ValuesIn(test::golden_cases_with("expected.safetensors")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
