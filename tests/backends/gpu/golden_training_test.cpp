// SPDX-License-Identifier: Apache-2.0
// Twenty steps of training on the golden cases, on the emulated drivers of NVIDIA and AMD: losses and gradient norms
// within the tolerances of the case. Three cases are quick; TRANSOM_GOLDEN_WHOLE=1 tries them all, on the device that
// TRANSOM_GOLDEN_DEVICE names, else on cuda, and expects the same bits of every mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/json/json.h"
#include "gpu_device.h"
#include "support/golden_on_device.h"
#include "support/golden_training.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/model.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

struct Curve {
  std::vector<double> losses, norms;
  bool operator==(const Curve&) const = default;
};

class CurveOnGpu {
 public:
  explicit CurveOnGpu(const std::string& name) : folder_(test::folder_of_case(name)) {}

  Curve in(Mode mode) const {
    set_mode(mode);
    const std::unique_ptr<Model> model = Model::from_pretrained((folder_ / "model").string());
    Curve curve;
    overfit_one_batch(*model, test::training_arguments(folder_), load_inputs(folder_ / "inputs.safetensors"),
                      [&](const StepReport& step) {
                        curve.losses.push_back(step.loss);
                        curve.norms.push_back(step.gradient_norm);
                      });
    set_mode(Mode::kLazy);
    return curve;
  }

  void expect_that_of_pytorch(const Curve& curve) const {
    const Json golden = read_json(folder_ / "train.json");
    const Json tolerance = read_json(folder_ / "case.json")["tolerance"], within = tolerance["train_losses"];
    const double rtol = within["rtol"], atol = within["atol"];
    const double norm_rtol = tolerance.contains("train_norms") ? tolerance["train_norms"]["rtol"].get<double>() : 5e-3;
    ASSERT_EQ(curve.losses.size(), golden["losses"].size());
    for (size_t i = 0; i < std::min(curve.losses.size(), steps_before_a_tie()); ++i) {
      const double loss = golden["losses"][i], norm = golden["grad_norms_before_clipping"][i];
      EXPECT_NEAR(curve.losses[i], loss, atol + rtol * std::abs(loss)) << "step " << i;
      EXPECT_NEAR(curve.norms[i], norm, 1e-3 + norm_rtol * norm) << "step " << i;
    }
  }

 private:
  // At the 11th step of ResNet the two largest numbers of a window of its pool are 1.5e-7 of each other apart, in
  // float64: rounding in f32 decides which of them the gradient goes to, and all later steps.
  size_t steps_before_a_tie() const { return folder_.filename() == "resnet-image-classification" ? 10 : SIZE_MAX; }

  std::filesystem::path folder_;
};

bool chooses(const std::string& device) {
  backend_test::use_emulated_drivers(/*unless_named=*/true);
  try {
    set_device(device);
  } catch (const Error&) {
    return false;
  }
  return true;
}

class GpuTraining : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(GpuTraining, FollowsPyTorch) {
  const auto& [device, name] = GetParam();
  if (!chooses(device)) GTEST_SKIP() << "no device " << device;
  const CurveOnGpu training(name);
  const Curve lazy = training.in(Mode::kLazy);
  training.expect_that_of_pytorch(lazy);
  if (name == "dlrm") {  // the others take long; the whole set records each
    EXPECT_EQ(training.in(Mode::kGraph), lazy) << "recorded launches";
  }
}

std::vector<std::pair<std::string, std::string>> quick_cases() {
  const std::vector<std::string> all = test::golden_cases_with("train.json");
  std::vector<std::pair<std::string, std::string>> cases;
  for (const char* device : {"cuda", "rocm"})
    for (const char* name : {"llama-lm", "t5", "dlrm"})
      if (std::count(all.begin(), all.end(), name)) cases.emplace_back(device, name);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Quick, GpuTraining, testing::ValuesIn(quick_cases()), [](const auto& info) {
  return test::with_underscores(info.param.first + "_" + info.param.second);
});

class GpuTrainingWhole : public testing::TestWithParam<std::string> {};

TEST_P(GpuTrainingWhole, FollowsPyTorchInEveryMode) {
  if (!std::getenv("TRANSOM_GOLDEN_WHOLE")) GTEST_SKIP() << "TRANSOM_GOLDEN_WHOLE=1 tries every golden case";
  const char* wanted = std::getenv("TRANSOM_GOLDEN_DEVICE");
  const std::string device = wanted ? wanted : "cuda";
  if (!chooses(device)) GTEST_SKIP() << "no device " << device;
  const CurveOnGpu training(GetParam());
  const Curve lazy = training.in(Mode::kLazy);
  training.expect_that_of_pytorch(lazy);
  EXPECT_EQ(training.in(Mode::kEager), lazy) << "eager";
  EXPECT_EQ(training.in(Mode::kCompile), lazy) << "compile";
  EXPECT_EQ(training.in(Mode::kGraph), lazy) << "graph";
}

INSTANTIATE_TEST_SUITE_P(Whole, GpuTrainingWhole, testing::ValuesIn(test::golden_cases_with("train.json")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
