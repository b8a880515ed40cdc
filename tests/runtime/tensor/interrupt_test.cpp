// SPDX-License-Identifier: Apache-2.0
// A stop that is requested ends what one thread computes, and nothing else.
#include "transom/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

#include "transom/compile.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::optional<ErrorKind> kind_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

float computed(float x) { return (Tensor::from(std::vector<float>{x}, {}) * 3.0).item<float>(); }

TEST(Interrupt, EndsTheNextComputationOfItsThread) {
  std::stop_source source;
  const InterruptScope scope(source.get_token());
  EXPECT_EQ(computed(1), 3.0F);
  const Tensor before = Tensor::from(std::vector<float>{2}, {}) + 1.0;
  eval({&before, 1});
  source.request_stop();
  EXPECT_EQ(kind_of([] { computed(2); }), ErrorKind::kInterrupted);
  EXPECT_EQ(before.item<float>(), 3.0F) << "what was computed stays valid";
  std::thread([] { EXPECT_EQ(computed(4), 12.0F); }).join();
}

TEST(Interrupt, IsOverWithItsScope) {
  std::stop_source source;
  source.request_stop();
  const Tensor x = Tensor::from(std::vector<float>{2}, {}) * 5.0;
  {
    const InterruptScope scope(source.get_token());
    EXPECT_EQ(kind_of([&] { x.item<float>(); }), ErrorKind::kInterrupted);
    {
      const InterruptScope inner{std::stop_token()};
      EXPECT_EQ(computed(1), 3.0F) << "the innermost counts";
    }
    EXPECT_EQ(kind_of([] { computed(1); }), ErrorKind::kInterrupted);
  }
  EXPECT_EQ(x.item<float>(), 10.0F) << "an interrupted value can be computed later";
}

// The traces of a compiled function are shared: a caller that is stopped while it makes one must not fail the others.
TEST(Interrupt, OfACompiledFunctionConcernsOneCaller) {
  std::stop_source source;
  const CompiledFunction function = compile([&](const std::vector<Tensor>& arguments) {
    source.request_stop();  // while it is traced
    const Tensor inside = Tensor::from(std::vector<float>{7}, {}) + 1.0;
    return std::vector<Tensor>{arguments[0] * static_cast<double>(inside.item<float>())};
  });
  const auto call = [&] { return function({Tensor::from(std::vector<float>{2}, {})})[0].item<float>(); };
  {
    const InterruptScope scope(source.get_token());
    EXPECT_EQ(call(), 16.0F);
    EXPECT_EQ(kind_of([&] { call(); }), ErrorKind::kInterrupted);
  }
  EXPECT_EQ(call(), 16.0F);
  EXPECT_EQ(function.traces(), 1u);
}

}  // namespace
}  // namespace transom
