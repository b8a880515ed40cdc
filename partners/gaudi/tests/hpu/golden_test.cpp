// SPDX-License-Identifier: Apache-2.0
// Golden cases on the card: outputs, gradients and twenty steps of training, in f32 within the tolerances of the case,
// in bf16 within what bf16 costs PyTorch itself on the same case (bf16_of_pytorch.json), and in every mode the same
// bits. The generation is the emulator's, or the card's. A few cases are quick; TRANSOM_GOLDEN_WHOLE=1 tries them all.
#include "testing/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hpu_device.h"
#include "testing/places.h"
#include "testing/program.h"
#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

// bf16_of_pytorch.json has the most of nine runs of PyTorch whose weights differ by a millionth, since twenty updates
// in bf16 are a random walk (one run of clip costs 0.0036 to 0.0076 of the loss). Sums in another order round as much
// again; twice what bf16 costs PyTorch is what an honest device may cost.
constexpr double kOfPytorch = 2;

struct Curve {
  std::vector<double> losses, norms;
  bool operator==(const Curve&) const = default;
};

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double x : values) result = std::max(result, std::abs(x));
  return result;
}

using test::Json;

class HpuGolden : public test::GoldenOnDevice {
 protected:
  void SetUp() override {
    if (!is_asked_for()) GTEST_SKIP() << "TRANSOM_GOLDEN_WHOLE=1 tries every golden case";
    ::setenv("TRANSOM_SYNAPSE_DEVICES", "2", 1);  // emulated: one for this process, one for the program
    test::require_hpu();
    if (IsSkipped()) return;
    read_case();
    if (IsSkipped()) return;
    const Json all = test::read_json(test::fs::path(test::partner_folder()) / "tests/hpu/bf16_of_pytorch.json");
    if (all.contains(GetParam())) pytorch_ = all[GetParam()];
  }

  // With the settings with which PyTorch trained on the batch of the case.
  Curve train(const char* mode, bool bf16) const {
    const Json given = test::read_json(folder_ / "train.json").at("hyperparameters");
    const test::TemporaryFolder folder;
    std::vector<std::string> words{"train",
                                   "--json",
                                   "--device",
                                   "hpu",
                                   "--mode",
                                   mode,
                                   "--model_name_or_path",
                                   (folder_ / "model").string(),
                                   "--overfit_batch",
                                   (folder_ / "inputs.safetensors").string(),
                                   "--output_dir",
                                   (folder / "out").string()};
    const auto add = [&](const char* name, const Json& value) {
      words.insert(words.end(), {std::string("--") + name, value.dump()});
    };
    add("learning_rate", given.at("learning_rate"));
    add("adam_beta1", given.at("betas").at(0));
    add("adam_beta2", given.at("betas").at(1));
    add("adam_epsilon", given.at("eps"));
    add("weight_decay", given.at("weight_decay"));
    add("max_grad_norm", given.at("max_grad_norm"));
    add("warmup_steps", given.at("num_warmup_steps"));
    add("max_steps", given.at("num_training_steps"));
    add("bf16", bf16);
    const test::Outcome outcome = test::Program(words, folder).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    Curve curve;
    for (const Json& step : test::steps_of(outcome.output)) {
      curve.losses.push_back(step.at("loss"));
      curve.norms.push_back(step.at("grad_norm"));
    }
    return curve;
  }

  Json pytorch_;
};

TEST_P(HpuGolden, OutputsAndGradientsInF32) {
  const NamedTensors lazy = results(Mode::kLazy);
  expect_within_tolerances(lazy);
  expect_same_bits_in_every_mode(lazy);
}

TEST_P(HpuGolden, OutputsAndGradientsInBf16) {
  if (pytorch_.is_null()) GTEST_SKIP() << "PyTorch was not asked";
  const NamedTensors lazy = results(Mode::kLazy, DType::kBFloat16);
  // Of the largest value that the case has.
  const auto deviation = [&](const Tensor& got, const test::KeptValues& expected) {
    const double largest_of_case = golden_["tolerance"][expected.name]["max_abs"];
    return test::largest_distance(expected, got.to_vector<double>(), counted(got)) / std::max(largest_of_case, 1e-30);
  };
  double most = 0;  // the loss may be right by chance, in PyTorch's case too
  for (const auto& [name, value] : pytorch_["outputs"].items()) most = std::max(most, value.get<double>());
  for (const test::KeptValues& expected : golden_values(folder_ / "expected.safetensors"))
    if (const std::string& name = expected.name; pytorch_["outputs"].contains(name)) {
      EXPECT_LE(deviation(lazy.at(name), expected),
                kOfPytorch * (name == "loss" ? most : pytorch_["outputs"][name].get<double>()))
          << name;
    }
  if (pytorch_.contains("gradients")) {
    double worst = 0;
    for (const test::KeptValues& expected : golden_values(folder_ / "grads.safetensors"))
      worst = std::max(worst,
                       test::largest_distance(expected, lazy.at("gradient of " + expected.name).to_vector<double>()));
    EXPECT_LE(worst / golden_["gradient_max_abs"].get<double>(), kOfPytorch * pytorch_["gradients"].get<double>());
  }
  expect_same_bits_in_every_mode(lazy, DType::kBFloat16);
}

TEST_P(HpuGolden, TwentyStepsOfTraining) {
  if (!std::filesystem::exists(folder_ / "train.json")) GTEST_SKIP() << "a model without a loss";
  const Json expected = test::read_json(folder_ / "train.json");
  const double rtol = golden_["tolerance"]["train_losses"]["rtol"], atol = golden_["tolerance"]["train_losses"]["atol"];
  const auto losses = expected["losses"].get<std::vector<double>>();
  for (const bool bf16 : {false, true}) {
    const Curve lazy = train("lazy", bf16);
    ASSERT_EQ(lazy.losses.size(), losses.size());
    double worst = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
      worst = std::max(worst, std::abs(lazy.losses[i] - losses[i]));
      if (bf16) continue;
      EXPECT_NEAR(lazy.losses[i], losses[i], atol + rtol * std::abs(losses[i])) << "step " << i;
    }
    if (bf16 && pytorch_.contains("losses")) {
      EXPECT_LE(worst / largest(losses), kOfPytorch * pytorch_["losses"].get<double>());
    }
    for (const auto& [mode, mode_name] : test::kModesBesideLazy)
      EXPECT_EQ(train(mode_name, bf16), lazy) << mode_name << (bf16 ? " bf16" : "");
  }
}

// The quick ones are one of each kind: an encoder with masks, a decoder with rotary embedding, convolutions, an encoder
// and decoder.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HpuGolden);
INSTANTIATE_TEST_SUITE_P(Quick, HpuGolden,
                         testing::Values("bert-sequence-classification", "llama-lm", "resnet-image-classification",
                                         "t5"),
                         test::name_of_case);
INSTANTIATE_TEST_SUITE_P(Whole, HpuGolden, testing::ValuesIn(test::all_golden_cases()), test::name_of_case);

}  // namespace
}  // namespace transom
