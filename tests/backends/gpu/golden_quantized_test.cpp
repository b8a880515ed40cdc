// SPDX-License-Identifier: Apache-2.0
// Models in 8-bit integers on a GPU's plugin: compressed checkpoints of their golden cases with inputs as they are and
// rounded to bytes, within the tolerances of the case, and float checkpoints by `quantization` int8. The same bits in
// every mode. Two cases are quick; TRANSOM_GOLDEN_WHOLE=1 tries them all. The device is chosen as in golden_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json/json.h"
#include "gpu_device.h"
#include "support/golden_on_device.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/model.h"
#include "transom/tensor.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

bool is_quick(const std::string& name) { return name == "gguf-llama-q4_k_m" || name == "ct-llama-w8a8"; }

double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

// Chooses the device; false where there is none.
bool chooses_golden_device() {
  backend_test::use_emulated_drivers(/*unless_named=*/true);
  const char* wanted = std::getenv("TRANSOM_GOLDEN_DEVICE");
  try {
    set_device(wanted ? wanted : "opencl");
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The first output in each mode, which is the same.
std::vector<double> in_every_mode(const std::string& path, const LoadOptions& options, const NamedTensors& inputs,
                                  const char* output) {
  const NoGradient inference;
  std::vector<double> lazy;
  for (const Mode mode : {Mode::kLazy, Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    set_mode(mode);
    const std::unique_ptr<Model> model = Model::from_pretrained(path, options);
    const std::vector<double> found = model->forward(inputs).at(output).to_vector<double>();
    if (mode == Mode::kLazy) lazy = found;
    EXPECT_EQ(found, lazy) << "mode " << static_cast<int>(mode);
  }
  set_mode(Mode::kLazy);
  return lazy;
}

class GpuCompressed : public testing::TestWithParam<std::string> {};

TEST_P(GpuCompressed, InputsAsTheyAreAndAsBytes) {
  if (!is_quick(GetParam()) && !std::getenv("TRANSOM_GOLDEN_WHOLE"))
    GTEST_SKIP() << "TRANSOM_GOLDEN_WHOLE=1 tries every golden case";
  if (!chooses_golden_device()) GTEST_SKIP() << "no such device";
  const std::filesystem::path folder = test::folder_of_case(GetParam(), test::GoldenSet::kQuantized),
                              file = folder / "model.gguf";
  const std::string path = (std::filesystem::exists(file) ? file : folder / "model").string();
  const Json golden = read_json(folder / "case.json");
  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  test::KeptValues exact, by_token;
  for (const test::KeptValues& each : test::golden_values(folder / "expected.safetensors"))
    (each.name == "logits" ? exact : by_token) = each;
  const auto expect_near = [&](const std::vector<double>& found, const Json& within) {
    EXPECT_EQ(difference(exact, found, within["atol"], within["rtol"]), "");
  };
  expect_near(in_every_mode(path, {}, inputs, "logits"), golden["tolerance"]["float32 arithmetic"]);
  const std::vector<double> rounded = in_every_mode(path, {.activations = "int8"}, inputs, "logits");
  expect_near(rounded, golden["tolerance"]["int8 activations"]);
  const Json& measured = golden["relative_rms_deviation_with_int8_activations"];
  EXPECT_LE(relative_error(exact, rounded),
            1.5 * std::max(measured["rows"].get<double>(), measured["blocks of 32"].get<double>()));
  if (!by_token.values.empty()) {  // rounded as the checkpoint asks
    // The largest of a row of K values lies between two steps and may be rounded to either: one error of a step beside
    // K whose squares are a twelfth of one.
    const double K = read_json(std::filesystem::path(path) / "config.json")["hidden_size"].get<double>();
    EXPECT_LE(relative_error(by_token, rounded), std::sqrt(12 / K) * relative_error(exact, rounded));
  }
  const std::vector<double> fastest = in_every_mode(path, {.activations = "fastest"}, inputs, "logits");
  EXPECT_LE(relative_error(exact, fastest), 1.5 * measured["blocks of 32"].get<double>());
  if (golden["format"] == "fp8") {
    const Json& known = golden["relative_deviation_of_the_largest_logit"]["fp8 activations, rows"];
    const double bound = 1.5 * known.get<double>() * golden["largest_logit"].get<double>();
    expect_near(in_every_mode(path, {.activations = "float8"}, inputs, "logits"), {{"atol", bound}, {"rtol", 0.0}});
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GpuCompressed,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kQuantized)),
                         test::NameOfCase());

// The cpu device rounds the same numbers but for their last bits, of which few lie between two steps.
TEST(GpuInt8, IsThatOfTheCpu) {
  for (const auto& [name, output] : {std::pair{"bert-sequence-classification", "logits"},
                                     {"llama-lm", "logits"},
                                     {"resnet-image-classification", "logits"}}) {
    const std::filesystem::path folder = test::golden_folder() / name;
    const std::string path = (folder / "model").string();
    std::vector<double> expected, exact;
    {
      const NoGradient inference;
      set_device("cpu");
      const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
      const LoadOptions rounded{.quantization = "int8"};
      expected = Model::from_pretrained(path, rounded)->forward(inputs).at(output).to_vector<double>();
      exact = Model::from_pretrained(path)->forward(inputs).at(output).to_vector<double>();
    }
    if (!chooses_golden_device()) GTEST_SKIP() << "no such device";
    const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
    const std::vector<double> found = in_every_mode(path, {.quantization = "int8"}, inputs, output);
    EXPECT_GT(relative_error(found, exact), 1e-5) << name << ": 8 bits are not 24";
    EXPECT_LT(relative_error(found, expected), 0.3 * relative_error(expected, exact)) << name;
  }
}

}  // namespace
}  // namespace transom
