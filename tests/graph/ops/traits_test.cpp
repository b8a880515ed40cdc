// SPDX-License-Identifier: Apache-2.0
// What the traits of each record promise, tried with its samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"
#include "support/evaluation.h"

namespace transom {
namespace {

using test::evaluate_operation;

class Traits : public testing::TestWithParam<const Operation*> {
 protected:
  const Operation& operation() const { return *GetParam(); }
  std::vector<Type> types_of(const Sample& sample) const {
    return operation().infer({operation(), sample.inputs, sample.attributes});
  }
  std::mt19937_64 random_{20261122};
};

std::vector<const Operation*> operations_with(bool (*trait)(const Operation&)) {
  std::vector<const Operation*> result;
  for (const Operation* operation : all_operations())
    if (operation->samples && trait(*operation)) result.push_back(operation);
  return result;
}

std::string name_of_operation(const testing::TestParamInfo<const Operation*>& info) {
  return std::string(info.param->name);
}

// Every number of an output is one of the inputs', or one that stands in the attributes (a padding, a constant).
class MovesOnly : public Traits {};
TEST_P(MovesOnly, MakesNoNewNumbers) {
  for (const Sample& sample : operation().samples()) {
    if (sample.inputs.empty()) continue;  // constants and counters
    const std::vector<Array> inputs = test::random_inputs(sample, random_);
    if (!inputs[0].floating() || types_of(sample)[0].dtype != inputs[0].type.dtype) continue;  // a cast
    std::vector<double> known;
    for (const Array& input : inputs) known.insert(known.end(), input.real.begin(), input.real.end());
    for (const auto& [name, value] : sample.attributes.items())
      if (const double* number = std::get_if<double>(&value)) known.push_back(*number);
    const std::vector<double> made = evaluate_operation(operation(), sample.attributes, inputs)[0].real;
    for (const double x : made) EXPECT_NE(std::find(known.begin(), known.end(), x), known.end()) << x;
  }
}
INSTANTIATE_TEST_SUITE_P(All, MovesOnly,
                         testing::ValuesIn(operations_with([](const Operation& o) { return o.moves_only; })),
                         name_of_operation);

class InPlace : public Traits {};
TEST_P(InPlace, WritesATensorOfTheInputsType) {
  for (const Sample& sample : operation().samples())
    EXPECT_EQ(types_of(sample)[0], sample.inputs.at(static_cast<size_t>(operation().in_place)));
}
INSTANTIATE_TEST_SUITE_P(All, InPlace,
                         testing::ValuesIn(operations_with([](const Operation& o) { return o.in_place >= 0; })),
                         name_of_operation);

// With one row of the inputs changed, the other rows of the output stay.
class RowByRow : public Traits {};
TEST_P(RowByRow, NeedsNoOtherRows) {
  size_t tried = 0;
  for (const Sample& sample : operation().samples()) {
    const Shape& shape = sample.inputs[0].shape;
    if (shape.size() < 2 || elements(shape) <= shape.back()) continue;
    std::vector<Array> inputs = test::random_inputs(sample, random_);
    const std::vector<double> before = evaluate_operation(operation(), sample.attributes, inputs)[0].real;
    for (Array& input : inputs)
      if (input.type.shape == shape)
        for (int64_t i = 0; i < shape.back(); ++i) input.real[static_cast<size_t>(i)] += 0.5;
    const std::vector<double> after = evaluate_operation(operation(), sample.attributes, inputs)[0].real;
    for (size_t i = static_cast<size_t>(shape.back()); i < before.size(); ++i) EXPECT_EQ(before[i], after[i]);
    ++tried;
  }
  EXPECT_GT(tried, 0u);
}
INSTANTIATE_TEST_SUITE_P(All, RowByRow, testing::ValuesIn(operations_with([](const Operation& o) {
                           return o.row_wise == RowWise::kEachRow || o.row_wise == RowWise::kAndColumnSums;
                         })),
                         name_of_operation);

class Collectives : public Traits {};
TEST_P(Collectives, HaveAnOrderAndAGradient) {
  EXPECT_NE(operation().gradient, nullptr);
  for (const Sample& sample : operation().samples()) EXPECT_TRUE(sample.attributes.has("order"));
}
INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         testing::ValuesIn(operations_with([](const Operation& o) { return o.collective; })),
                         name_of_operation);

TEST(AutocastClass, DecidesTheTypesOfInputs) {
  const Tensor x = make_input({DType::kFloat32, {2, 3}}), low = make_input({DType::kBFloat16, {2, 3}});
  const Tensor indices = make_input({DType::kInt64, {2}});
  const auto types = [&](const Operation& operation) {
    std::string text;
    for (const Tensor& input : autocast_inputs(operation, {x, low, indices}, {.dtype = DType::kBFloat16}))
      text += std::string(name_of(input.dtype())) + " ";
    return text;
  };
  EXPECT_EQ(types(op::dot_general), "bf16 bf16 i64 ");
  EXPECT_EQ(types(find_operation("softmax")), "f32 f32 i64 ");
  EXPECT_EQ(types(op::add), "f32 bf16 i64 ");
}

}  // namespace
}  // namespace transom
