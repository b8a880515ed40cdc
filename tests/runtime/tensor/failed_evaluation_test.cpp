// SPDX-License-Identifier: Apache-2.0
// A program that fails midway may have written over inputs that were given away. What is computed from them afterwards
// is an error, never another number.
#include <gtest/gtest.h>

#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

class FailedEvaluation : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }

  static Tensor ones() { return Tensor::from(Floats(64, 1), {64}); }
  // Fails when it is computed: there is no such row.
  static Tensor failing(const Tensor& x) { return gather(x, Tensor::from(std::vector<int64_t>{1000}, {1}), 0); }
};

TEST_P(FailedEvaluation, LeavesNoOtherNumberBehind) {
  const Tensor sum = ones() + 1.0;  // takes the memory of its leaf
  const Tensor bad = failing(sum * 2.0);
  EXPECT_THROW(eval(std::vector<Tensor>{sum, bad}), Error);
  for (int repeat = 0; repeat < 2; ++repeat) {
    Floats found;
    const std::string message = test::message_of([&] { found = sum.to_vector<float>(); });
    if (message.empty()) EXPECT_EQ(found, Floats(64, 2));
    else EXPECT_NE(message.find("a value is lost"), std::string::npos) << message;
  }
  EXPECT_EQ((ones() + 1.0).to_vector<float>(), Floats(64, 2));
}

TEST_P(FailedEvaluation, SparesWhatSomebodyHolds) {
  const Tensor leaf = ones();
  const Tensor sum = leaf + 1.0;
  EXPECT_THROW(eval(std::vector<Tensor>{sum, failing(sum * 2.0)}), Error);
  EXPECT_EQ(leaf.to_vector<float>(), Floats(64, 1));
  EXPECT_EQ(sum.to_vector<float>(), Floats(64, 2));
}

// What is only borrowed comes back as it was, whatever else the program has given away.
TEST_P(FailedEvaluation, SparesWhatIsWantedBack) {
  for (const Mode mode : {Mode::kLazy, Mode::kGraph}) {
    set_mode(mode);
    StepRunner run;
    Tensor value = ones() + 0.0;
    std::shared_ptr<Buffer> kept = buffer_of(value);
    const auto references = [&](const std::shared_ptr<Buffer>& buffer) { return buffer == kept ? 1L : 0L; };
    for (int step = 0; step < 3; ++step) {
      const Tensor next = std::exchange(value, {}) + 1.0;
      // The update is traced before what fails.
      EXPECT_THROW(run(std::vector<Tensor>{next, failing(next * 2.0)}, references), Error);
      value = make_input({DType::kFloat32, {64}}, kept);
      EXPECT_EQ(value.to_vector<float>(), Floats(64, static_cast<float>(1 + step))) << step;
      const Tensor good = std::exchange(value, {}) + 1.0;
      run(std::vector<Tensor>{good}, references);
      kept = buffer_of(good);
      value = good;
    }
    set_mode(Mode::kLazy);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FailedEvaluation, testing::Values("cpu", "reference"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace transom
