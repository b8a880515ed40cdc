// SPDX-License-Identifier: Apache-2.0
// Golden cases on a GPU's plugin: outputs and gradients within the tolerances of the case, and the same bits in every
// mode. TRANSOM_GOLDEN_DEVICE is opencl, unless it says cuda or rocm, whose drivers are then the emulated ones. OpenCL
// is the emulated one (emulators/opencl), whose kernels compile in milliseconds, unless TRANSOM_OPENCL_LIBRARY names
// another. A few cases are quick; TRANSOM_GOLDEN_WHOLE=1 tries them all.
#include "support/golden_on_device.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "gpu_device.h"
#include "transom/device.h"

namespace transom {
namespace {

class GpuGolden : public test::GoldenOnDevice {
 protected:
  void SetUp() override {
    if (!is_asked_for()) GTEST_SKIP() << "TRANSOM_GOLDEN_WHOLE=1 tries every golden case";
    backend_test::use_emulated_drivers(/*unless_named=*/true);
    const char* wanted = std::getenv("TRANSOM_GOLDEN_DEVICE");
    try {
      set_device(wanted ? wanted : "opencl");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    read_case();
  }
};

TEST_P(GpuGolden, OutputsAndGradients) {
  const NamedTensors lazy = results(Mode::kLazy);
  expect_within_tolerances(lazy);
  expect_same_bits_in_every_mode(lazy);
}

const test::NameOfCase kName;
INSTANTIATE_TEST_SUITE_P(Quick, GpuGolden,
                         testing::ValuesIn(test::golden_cases_named({"bert-sequence-classification", "llama-lm", "t5",
                                                                     "vit-image-classification", "dlrm"})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Whole, GpuGolden, testing::ValuesIn(test::golden_cases_with("expected.safetensors")), kName);

}  // namespace
}  // namespace transom
