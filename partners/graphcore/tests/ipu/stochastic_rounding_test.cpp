// SPDX-License-Identifier: Apache-2.0
// stochastic_rounding: weights of f16 learn what nearest rounding loses, and a model's numbers are right in the mean.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ipu_options.h"
#include "testing/ranks.h"
#include "testing/safetensors.h"
#include "transom/compile.h"
#include "transom/ops.h"

namespace transom {
namespace {

using namespace test;

constexpr float kUpdate = 0x1p-13f;  // an eighth of the step of f16 from 1 to 2
constexpr int kTimes = 16;

// 4096 weights of f16 after so many updates, each a run of the program, with the configuration of this process.
std::vector<float> updated_weights() {
  set_device("ipu");
  const CompiledFunction update = compile(
      [](const std::vector<Tensor>& x) {
        return std::vector{cast(cast(x[0], DType::kFloat32) + x[1], DType::kFloat16)};
      },
      {});
  Tensor weights = cast(Tensor::from(std::vector<float>(4096, 1), {4096}), DType::kFloat16);
  const Tensor by = Tensor::from(std::vector<float>(4096, kUpdate), {4096});
  for (int i = 0; i < kTimes; ++i) weights = update({weights, by})[0];
  return cast(weights, DType::kFloat32).to_vector<float>();
}

double mean_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// What a process of its own says of itself, since a process reads the configuration once.
int learns_in_the_mean() {
  const double mean = mean_of(updated_weights());
  // Five deviations: a run has at most half a step, of 2^-10.
  const double bound = 5 * 0x1p-11 * std::sqrt(kTimes / 4096.0);
  std::fprintf(stderr, "mean %.6f\n", mean);
  return std::abs(mean - (1 + kTimes * kUpdate)) < bound ? 0 : 1;
}
int loses_all() {
  const std::vector<float> weights = updated_weights();
  return weights == std::vector<float>(weights.size(), 1) ? 0 : 1;
}

class IpuStochasticRounding : public test::IpuOptions {};

TEST_F(IpuStochasticRounding, WeightsLearnSmallUpdatesInTheMean) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  configure(R"({"stochastic_rounding": true, "seed": 5})");
  EXPECT_EXIT(std::_Exit(learns_in_the_mean()), testing::ExitedWithCode(0), "");
}
TEST_F(IpuStochasticRounding, NearestRoundingLosesThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  configure(R"({"stochastic_rounding": false})");
  EXPECT_EXIT(std::_Exit(loses_all()), testing::ExitedWithCode(0), "");
}

class IpuRoundedModel : public test::IpuOptions {
 protected:
  void SetUp() override {
    IpuOptions::SetUp();
    if (IsSkipped()) return;
    set_device("cpu");
    test::save_model_and_rows(folder_, 1);
    std::vector<int64_t> tokens(4 * 8);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i * 7 % 40);
    test::write_integers(folder_ / "in.safetensors", {"input_ids"}, {4, 8}, tokens);
  }
  std::vector<float> logits(const std::string& device, const std::string& dtype) {
    const Outcome outcome =
        Program({"forward", "--device", device, "--dtype", dtype, "--model", (folder_ / "model").string(), "--inputs",
                 (folder_ / "in.safetensors").string(), "--outputs", (folder_ / "out.safetensors").string()},
                folder_)
            .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return cast(test::read_safetensors(folder_ / "out.safetensors").at("logits"), DType::kFloat32).to_vector<float>();
  }
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
  }
};

TEST_F(IpuRoundedModel, NumbersAreThoseOfTheSeedAndRightInTheMean) {
  const std::vector<float> plain = logits("ipu", "float16");
  configure(R"({"seed": 9})");
  EXPECT_EQ(logits("ipu", "float16"), plain);  // off: as without
  configure(R"({"stochastic_rounding": true, "seed": 9})");
  const std::vector<float> first = logits("ipu", "float16");
  EXPECT_EQ(logits("ipu", "float16"), first);
  EXPECT_NE(first, plain);
  // The weights that f16 has, in f32.
  const std::vector<float> exact = logits("cpu", "float32");
  std::vector<float> mean(exact.size(), 0);
  double single = 0;
  constexpr int kRuns = 12;
  for (int run = 0; run < kRuns; ++run) {
    configure(R"({"stochastic_rounding": true, "seed": )" + std::to_string(run) + "}");
    const std::vector<float> found = logits("ipu", "float16");
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += found[i] / kRuns;
    single += distance(found, exact) / kRuns;
  }
  EXPECT_LT(distance(mean, exact), 0.8 * single);
}

}  // namespace
}  // namespace transom
