// SPDX-License-Identifier: Apache-2.0
// Every operation's samples on the device, against the float64 records.
#include <gtest/gtest.h>

#include <cmath>

#include "hpu_device.h"
#include "support/evaluation.h"
#include "transom/device.h"

namespace transom {
namespace {

using test::evaluate_operation;

// Rounding of one operation in this type, with room for the polynomials of kernels.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 2e-5;
    case DType::kBFloat16:
      return 2e-2;
    case DType::kFloat16:
      return 3e-3;
    default:
      return 1e-12;
  }
}

class HpuRecords : public testing::TestWithParam<const Operation*> {
 protected:
  void SetUp() override { test::require_hpu(); }
};

std::vector<const Operation*> operations() {
  std::vector<const Operation*> result;
  for (const Operation* operation : all_operations())
    if (operation->name != "input" && operation->name != "fusion" && operation->name != "row_fusion" &&
        operation->name != "checkpoint" && operation->name != "on_host")
      result.push_back(operation);
  return result;
}

Tensor upload(Array array) {
  const Tensor wide = array.floating() ? Tensor::from(std::span<const double>(array.real), array.type.shape)
                                       : Tensor::from(std::span<const int64_t>(array.integer), array.type.shape);
  return cast(wide, array.type.dtype);
}

void expect_close(const Tensor& found, const Array& expected) {
  ASSERT_EQ(found.type(), expected.type);
  const std::vector<double> values = found.to_vector<double>();
  double tolerated = tolerance(expected.type.dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = expected.get(static_cast<int64_t>(i));
    if (values[i] == wanted || (std::isnan(values[i]) && std::isnan(wanted))) continue;
    ASSERT_LE(std::abs(values[i] - wanted), tolerated * (1 + std::abs(wanted))) << "element " << i;
  }
}

TEST_P(HpuRecords, GiveWhatTheReferenceGives) {
  const Operation& operation = *GetParam();
  std::mt19937_64 random(7);
  for (const Sample& sample : operation.samples()) {
    std::string text;
    for (const Type& type : sample.inputs) text += to_string(type) + " ";
    SCOPED_TRACE(text + "{" + to_string(sample.attributes) + "}");
    std::vector<Array> inputs = test::random_inputs(sample, random);
    std::vector<Tensor> tensors;
    for (Array& input : inputs) {
      round_to_dtype(input);
      tensors.push_back(upload(input));
    }
    const std::vector<Tensor> outputs = make_tensors(operation, tensors, sample.attributes);
    const std::vector<Array> expected = evaluate_operation(operation, sample.attributes, inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) expect_close(outputs[i], expected[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HpuRecords, testing::ValuesIn(operations()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace transom
