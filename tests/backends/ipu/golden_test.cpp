// SPDX-License-Identifier: Apache-2.0
// Golden cases on the IPU: outputs and gradients within the tolerances of the case, and the same bits in every mode. A
// few cases are quick; TRANSOM_GOLDEN_WHOLE=1 tries them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "support/golden_cases.h"
#include "train/loop/model_inputs.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {
namespace {

std::vector<std::string> cases(bool whole) {
  const std::vector<std::string> all = test::golden_cases_with("expected.safetensors");
  if (whole) return all;
  std::vector<std::string> names;
  for (const char* name : {"bert-sequence-classification", "gpt2-lm", "vit-image-classification"})
    if (std::count(all.begin(), all.end(), name)) names.emplace_back(name);
  return names;
}

class IpuGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string suite = testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
    if (suite.starts_with("Whole") && !std::getenv("TRANSOM_GOLDEN_WHOLE"))
      GTEST_SKIP() << "TRANSOM_GOLDEN_WHOLE=1 tries every golden case";
    ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
    try {
      set_device("ipu");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    folder_ = test::golden_folder() / GetParam();
    golden_ = read_json(folder_ / "case.json");
    inputs_ = load_inputs(folder_ / "inputs.safetensors");
  }
  void TearDown() override { set_mode(Mode::kLazy); }

  // Outputs by name, and gradients by "gradient of <name>".
  NamedTensors results(Mode mode) const {
    set_mode(mode);
    const std::unique_ptr<Model> model = Model::from_pretrained((folder_ / "model").string());
    const ForwardContext context{.return_loss = golden_["forward_kwargs"].value("return_loss", false)};
    const NamedTensors outputs = model->forward(inputs_, context);
    NamedTensors all;
    std::vector<Tensor> tensors, values;
    for (const auto& [name, tensor] : outputs.items()) all.set(name, tensor), tensors.push_back(tensor);
    if (std::filesystem::exists(folder_ / "grads.safetensors")) {
      for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
      const std::vector<Tensor> made = gradients(outputs.at("loss"), values);
      size_t i = 0;
      for (const auto& parameter : model->parameters()) {
        all.set("gradient of " + parameter->name, made[i]);
        tensors.push_back(made[i++]);
      }
    }
    eval(tensors);
    return all;
  }

  std::filesystem::path folder_;
  Json golden_;
  NamedTensors inputs_;
};

TEST_P(IpuGolden, OutputsAndGradients) {
  const NamedTensors lazy = results(Mode::kLazy);
  const Tensor mask = inputs_.find("attention_mask");
  // Rows of (batch, position) whose mask is 0 are left out.
  const auto counted = [&](const Tensor& tensor) {
    std::vector<double> values = tensor.to_vector<double>();
    if (!mask.defined() || mask.rank() != 2 || tensor.rank() < 2 || tensor.dim(0) != mask.dim(0) ||
        tensor.dim(1) != mask.dim(1))
      return values;
    const std::vector<int64_t> kept = mask.to_vector<int64_t>();
    const size_t row = values.size() / kept.size();
    std::vector<double> result;
    for (size_t i = 0; i < values.size(); ++i)
      if (kept[i / row]) result.push_back(values[i]);
    return result;
  };
  const auto expect_near = [&](const std::string& name, const Tensor& got, const Tensor& expected, const Json& within) {
    ASSERT_EQ(got.shape(), expected.shape()) << name;
    const std::vector<double> a = counted(got), b = counted(expected);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]), within["atol"].get<double>() + within["rtol"].get<double>() * std::abs(b[i]))
          << name << " at " << i;
  };
  for (const auto& [name, tensor] : load_inputs(folder_ / "expected.safetensors").items())
    expect_near(name, lazy.at(name), tensor, golden_["tolerance"][name]);
  if (std::filesystem::exists(folder_ / "grads.safetensors"))
    for (const auto& [name, tensor] : load_inputs(folder_ / "grads.safetensors").items())
      expect_near(name, lazy.at("gradient of " + name), tensor, golden_["tolerance"]["grads"]);
  for (const auto& [mode, mode_name] : {std::pair{Mode::kEager, "eager"}, std::pair{Mode::kCompile, "compile"}}) {
    const NamedTensors other = results(mode);
    for (const auto& [name, tensor] : lazy.items())
      EXPECT_EQ(other.at(name).to_bytes(), tensor.to_bytes()) << mode_name << ": " << name;
  }
}

// The relative error of all gradients of a model in f16, sums in f32 (fp16.32), against those in f32; `spread` is that
// of PyTorch 2 in f16 on the same case.
struct HalfCase {
  const char* name;
  double spread;
};

TEST(IpuHalf, GradientsAreAsNearAsThoseOfPyTorch) {
  ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
  try {
    set_device("ipu");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  size_t tried = 0;
  for (const HalfCase& half : {HalfCase{"bert-sequence-classification", 1.62e-3}, HalfCase{"gpt2-lm", 2.49e-3},
                               HalfCase{"vit-image-classification", 2.11e-3}}) {
    const std::filesystem::path folder = test::golden_folder() / half.name;
    if (!std::filesystem::exists(folder / "grads.safetensors")) continue;
    ++tried;
    LoadOptions load;
    load.dtype = "float16";
    const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string(), load);
    std::vector<Tensor> values;
    for (const auto& parameter : model->parameters()) values.push_back(parameter->value);
    const std::vector<Tensor> made =
        gradients(model->forward(load_inputs(folder / "inputs.safetensors"), ForwardContext()).at("loss"), values);
    const NamedTensors expected = load_inputs(folder / "grads.safetensors");
    double squares = 0, errors = 0;
    for (size_t i = 0; i < made.size(); ++i) {
      const Tensor reference = expected.find(model->parameters()[i]->name);
      if (!reference.defined() || !made[i].defined()) continue;
      EXPECT_EQ(made[i].dtype(), DType::kFloat16);
      const std::vector<double> a = made[i].to_vector<double>(), b = reference.to_vector<double>();
      ASSERT_EQ(a.size(), b.size());
      for (size_t k = 0; k < a.size(); ++k) errors += (a[k] - b[k]) * (a[k] - b[k]), squares += b[k] * b[k];
    }
    ASSERT_GT(squares, 0) << half.name;
    EXPECT_LT(std::sqrt(errors / squares), 1.25 * half.spread) << half.name;
  }
  if (tried == 0) GTEST_SKIP() << "there are no golden cases here";
}

const auto kName = [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(Quick, IpuGolden, testing::ValuesIn(cases(false)), kName);
INSTANTIATE_TEST_SUITE_P(Whole, IpuGolden, testing::ValuesIn(cases(true)), kName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IpuGolden);

}  // namespace
}  // namespace transom
