// SPDX-License-Identifier: Apache-2.0
// Tensors in parts, as one process sees them.
#include "sharding/sharded_tensors.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What was computed in parts lets go of its inputs, as all that is computed does.
TEST(ShardedTensors, RefuseGradientsOfWhatWasComputedBefore) {
  const ModeScope lazy(Mode::kLazy);
  ShardedTensors tensors(ProcessMesh({1, 1, 1, 1, 1, 1}, 0, 1));
  const Tensor x = tensors.hold_part_of(Tensor::from(std::vector<float>{1, 2, 3}, {3}), replicated(1));
  const Tensor y = sum(x * x);
  const auto gradient_of = [&](const Tensor& tensor) { return test::message_of([&] { gradients(tensor, {x}); }); };
  EXPECT_EQ(gradient_of(y), "");
  StepRunner runner;
  ShardedRequest request;
  request.outputs.push_back({y, std::nullopt});
  tensors.evaluate(request, runner);
  EXPECT_EQ(y.item<float>(), 14);
  EXPECT_NE(gradient_of(y * 2.0).find("was computed before"), std::string::npos);
}

}  // namespace
}  // namespace transom
