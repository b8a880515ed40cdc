// SPDX-License-Identifier: Apache-2.0
// The lazy tensor on the reference device, in both modes.
#include "transom/tensor.h"

#include <gtest/gtest.h>

#include "base/terminal/log.h"
#include "runtime/programs/program.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

class TensorModes : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    set_device("reference");
    set_mode(GetParam());
  }
  void TearDown() override { set_mode(Mode::kLazy); }
};

using Floats = std::vector<float>;

TEST_P(TensorModes, ComputesWhatIsRead) {
  const Tensor x = Tensor::from(Floats{1, 2, 3, 4}, {2, 2});
  const Tensor y = matmul(x, x) + 1.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{8, 11, 16, 23}));
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{8, 11, 16, 23}));
}

TEST_P(TensorModes, TakesGradientsBeforeAndAfterTheLossIsRead) {
  Tensor x = Tensor::from(Floats{1, 2, 3}, {3});
  x.set_requires_grad();
  const Tensor loss = sum(x * x);
  EXPECT_EQ(gradients(loss, {x})[0].to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(loss.item<float>(), 14);
  EXPECT_EQ(gradients(loss, {x})[0].to_vector<float>(), (Floats{2, 4, 6}));
}

// Without requires_grad a computed value keeps no inputs: to call that independence would be wrong in silence.
TEST_P(TensorModes, RefusesGradientsOfALossThatWasReadAndKeptNothing) {
  const Tensor x = Tensor::from(Floats{1, 2, 3}, {3});
  const Tensor loss = sum(x * x);
  if (GetParam() == Mode::kLazy) {
    EXPECT_EQ(gradients(loss, {x})[0].to_vector<float>(), (Floats{2, 4, 6}));
  }
  EXPECT_EQ(loss.item<float>(), 14);
  const std::string message = test::message_of([&] { gradients(loss, {x}); });
  EXPECT_NE(message.find("was computed before"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_P(TensorModes, StopsGradientsAtDetach) {
  Tensor x = Tensor::from(Floats{1, 2}, {2});
  x.set_requires_grad();
  const Tensor loss = sum(x * (x * 3.0).detach());
  EXPECT_EQ(gradients(loss, {x})[0].to_vector<float>(), (Floats{3, 6}));
}

TEST_P(TensorModes, KeepsWhatAHandleCanStillReach) {
  Tensor x = Tensor::from(Floats{1, 2}, {2});
  const Tensor held = exp(x);
  Tensor y = x + 1.0;
  x = Tensor();
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 3}));
  EXPECT_FLOAT_EQ(held.to_vector<float>()[0], 2.7182818f);  // x was not given away under it
}

TEST_P(TensorModes, UpdatesAValueManyTimes) {
  Tensor x = Tensor::from(Floats{0, 0}, {2});
  for (int i = 0; i < 50; ++i) {
    x = x + Tensor::scalar(i);
    eval({x});
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{1225, 1225}));
}

TEST_P(TensorModes, ReportsShapesWithTheModulesPath) {
  const ModuleScope encoder("encoder"), layer("layer.3");
  EXPECT_EQ(test::message_of([] {
              add(Tensor::from(Floats{1, 2}, {2}), Tensor::from(Floats{1, 2, 3}, {3}));
            }),
            "encoder.layer.3: add: shapes [2] and [3] do not fit together");
}

TEST_P(TensorModes, HandsOutAnInputThatAnOutputTurnsOutToBe) {
  const Tensor x = Tensor::from(Floats{1, 2, 3, 4}, {2, 2});
  const Tensor same = transpose(transpose(x, 0, 1), 0, 1) * 1.0;
  EXPECT_EQ(same.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(Modes, TensorModes, testing::Values(Mode::kLazy, Mode::kEager),
                         [](const auto& mode) { return mode.param == Mode::kLazy ? "lazy" : "eager"; });

TEST(ProgramCache, FindsTheProgramOfARepeatedStep) {
  set_device("reference");
  Tensor x = Tensor::from(Floats{1, 2}, {2});
  const auto step = [&](float rate) {
    x = x - x * Tensor::scalar(rate);
    eval({x});
  };
  step(0.1f);
  const size_t before = cache_statistics().programs.misses;
  for (int i = 0; i < 5; ++i) step(0.01f * static_cast<float>(i));
  EXPECT_EQ(cache_statistics().programs.misses, before);
}

// TRANSOM_LOG=recompiles names a batch by its types; what has none is named by what it reads or makes.
TEST(ProgramCache, SaysWhatAProgramIsCompiledFor) {
  set_device("reference");
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  ::setenv("TRANSOM_LOG", "recompiles", 1);
  const auto compiled_for = [&](const std::vector<Tensor>& results) {
    said.clear();
    eval(results);
    const size_t begin = said.find(" for "), end = said.find(" in ");
    return end == said.npos ? said : said.substr(begin + 5, end - begin - 5);
  };
  const Tensor kept = Tensor::from(Floats{1, 2, 3, 4, 5, 6, 7}, {7});
  EXPECT_EQ(compiled_for({kept * kept - kept}), "(f32[7])");
  EXPECT_EQ(compiled_for({full({11}, 2.5) * full({11}, 0.5)}), "constants alone, giving (f32[11])");
  Tensor updated = Tensor::from(Floats{1, 2, 3}, {3});
  updated = updated * updated;
  EXPECT_EQ(compiled_for({updated}), "donated (f32[3])");
  const auto weights = std::make_shared<Floats>(Floats(13, 0.5f));
  const Tensor frozen = Tensor::from_frozen(std::as_bytes(std::span(*weights)), {DType::kFloat32, {13}}, weights);
  EXPECT_EQ(compiled_for({frozen + frozen}), "frozen (f32[13])");
  ::unsetenv("TRANSOM_LOG");
  set_log_sink({});
}

}  // namespace
}  // namespace transom
