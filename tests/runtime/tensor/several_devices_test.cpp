// SPDX-License-Identifier: Apache-2.0
// Several devices in one process: the plugins cpu and reference, which are two devices to all that lies above them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/message.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/layers.h"
#include "transom/ops.h"
#include "transom/tensor.h"

namespace transom {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kOther = "reference";

Tensor vector_of(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

TEST(SeveralDevices, CopyTheirValuesToEachOther) {
  const Tensor here = vector_of({1, 2, 3});
  const Tensor there = here.to(kOther);
  EXPECT_EQ(here.device(), device_name());
  EXPECT_EQ(there.device(), kOther);
  EXPECT_THAT(there.to_vector<float>(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(there.to(kOther).same_as(there));
  EXPECT_TRUE(here.to(device_name()).same_as(here));
}

TEST(SeveralDevices, ComputeWhereTheirTensorsAre) {
  const Tensor there = vector_of({1, 2, 3}).to(kOther);
  const Tensor sum = there * there + 1.0;
  EXPECT_EQ(sum.device(), kOther);  // of a tensor that is not computed
  EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 5, 10));
  EXPECT_EQ(sum.device(), kOther);
  EXPECT_THAT((sum.to(device_name()) + vector_of({1, 1, 1})).to_vector<float>(), ElementsAre(3, 6, 11));
}

TEST(SeveralDevices, AreNotMixedInOneComputation) {
  const Tensor there = vector_of({1, 2}).to(kOther);
  const Tensor mixed = there + vector_of({1, 2});
  const std::string message = message_of([&] { mixed.to_vector<float>(); });
  EXPECT_THAT(message, HasSubstr("f32[2]"));
  EXPECT_THAT(message, HasSubstr(kOther));
  EXPECT_THAT(message, HasSubstr(device_name()));
  EXPECT_THAT(message, HasSubstr("Tensor::to"));
}

TEST(SeveralDevices, AScopeSaysWhereTensorsAreMade) {
  const std::string before = device_name();
  {
    const DeviceScope scope(kOther);
    EXPECT_EQ(device_name(), kOther);
    EXPECT_EQ(vector_of({1}).device(), kOther);
    EXPECT_EQ(iota({3}, 0).device(), kOther);  // made on the device, of no tensor
    {
      const DeviceScope inner(before);
      EXPECT_EQ(vector_of({1}).device(), before);
    }
    EXPECT_EQ(vector_of({1}).device(), kOther);
    std::string elsewhere;
    std::thread([&] { elsewhere = device_name(); }).join();
    EXPECT_EQ(elsewhere, before);
  }
  EXPECT_EQ(vector_of({1}).device(), before);
  EXPECT_THROW(DeviceScope("no_such_device"), Error);
  EXPECT_EQ(device_name(), before);
}

TEST(SeveralDevices, NoGradientFlowsBetweenThem) {
  Tensor weight = vector_of({1, 2});
  weight.set_requires_grad();
  EXPECT_THAT(message_of([&] { (weight * 2.0).to(kOther); }), HasSubstr("detach()"));
  EXPECT_THAT((weight * 2.0).detach().to(kOther).to_vector<float>(), ElementsAre(2, 4));
  const NoGradient none;
  EXPECT_THAT((weight * 2.0).to(kOther).to_vector<float>(), ElementsAre(2, 4));
}

TEST(SeveralDevices, TakeGradientsEachOfItsOwn) {
  Tensor weight = vector_of({1, 2}).to(kOther);
  weight.set_requires_grad();
  const std::vector<Tensor> gradient = gradients(sum(weight * weight), {weight});
  EXPECT_EQ(gradient[0].device(), kOther);
  EXPECT_THAT(gradient[0].to_vector<float>(), ElementsAre(2, 4));
}

TEST(SeveralDevices, CompileAFunctionForEach) {
  const CompiledFunction twice([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2.0}; }, {});
  const Tensor here = vector_of({1, 2});
  const Tensor there = here.to(kOther);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(twice({here})[0].device(), device_name());
    EXPECT_EQ(twice({there})[0].device(), kOther);
    EXPECT_THAT(twice({there})[0].to_vector<float>(), ElementsAre(2, 4));
  }
  EXPECT_EQ(twice.traces(), 2U);

  const CompiledFunction with_captured([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + here}; },
                                       {});
  EXPECT_THAT(message_of([&] { with_captured({there}); }), HasSubstr("Tensor::to"));
}

TEST(SeveralDevices, ComputeAtOnce) {
  const auto work = [](const char* device, std::vector<float>& results) {
    const DeviceScope scope(device);
    Tensor state = vector_of({1, 1});
    for (int i = 0; i < 20; ++i) {
      state = state + vector_of({1, 2});
      results.push_back(state.to_vector<float>()[1]);
    }
    if (state.device() != device) results.clear();
  };
  std::vector<float> first, second;
  std::thread one(work, "cpu", std::ref(first)), other(work, kOther, std::ref(second));
  one.join();
  other.join();
  ASSERT_EQ(first.size(), 20U);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.back(), 41);
}

}  // namespace
}  // namespace transom
