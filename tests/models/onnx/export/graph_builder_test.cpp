// SPDX-License-Identifier: Apache-2.0
// Extents of a run as forms of its inputs', and nodes that are made once.
#include "models/onnx/export/graph_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/message.h"

namespace transom::onnx {
namespace {

const Extent kBatch = {3, 5, 2, 7}, kLength = {11, 13, 17, 19}, kPast = {8, 10, 15, 12};

Extent combined(const Extent& x, const Extent& y, int64_t (*combine)(int64_t, int64_t)) {
  Extent result;
  for (size_t s = 0; s < kSignatures; ++s) result.push_back(combine(x[s], y[s]));
  return result;
}

class Builder : public testing::Test {
 protected:
  GraphBuilder builder_{23};
  ValueId ids_ = builder_.input("input_ids", {DType::kInt64, {kBatch, kLength}}, {"batch_size", "sequence_length"});
  ValueId past_ = builder_.input("past", {DType::kFloat32, {kBatch, kPast}}, {"batch_size", "past_sequence_length"});
  // The operations that compute one extent.
  std::vector<std::string> operations_of(const Extent& extent) {
    builder_.output("extent", builder_.extent(extent), DType::kInt64);
    std::vector<std::string> names;
    for (const WrittenNode& node : builder_.finish("test").nodes) names.push_back(node.operation);
    return names;
  }
};

using Names = std::vector<std::string>;

TEST_F(Builder, ReadsExtentsOfInputs) { EXPECT_EQ(operations_of(kLength), Names{"Shape"}); }

TEST_F(Builder, SolvesLines) {  // (2 T + 3)
  EXPECT_EQ(operations_of(combined(kLength, kLength, [](int64_t x, int64_t y) { return x + y + 3; })),
            (Names{"Shape", "Mul", "Add"}));
}

TEST_F(Builder, SolvesProducts) {
  const Names names = operations_of(combined(kBatch, kLength, [](int64_t x, int64_t y) { return 4 * x * y; }));
  EXPECT_EQ(std::count(names.begin(), names.end(), "Mul"), 2);
  EXPECT_EQ(std::count(names.begin(), names.end(), "Shape"), 2);
}

TEST_F(Builder, SolvesSums) {
  const Names names = operations_of(combined(kPast, kLength, [](int64_t x, int64_t y) { return x + y; }));
  EXPECT_EQ(std::count(names.begin(), names.end(), "Add"), 1);
}

TEST_F(Builder, RefusesWhatHasNoForm) {
  const std::string message = test::message_of([&] { builder_.extent({1, 2, 3, 7919}); });
  EXPECT_NE(message.find("1, 2, 3, 7919"), message.npos) << message;
}

TEST_F(Builder, AnExtentThatFitsThreeOfFourSignaturesIsRefused) {
  Extent wrong = kLength;
  for (int64_t& extent : wrong) extent += 1000;
  wrong[3] += 1;
  EXPECT_NE(test::message_of([&] { builder_.extent(wrong); }), "");
}

TEST_F(Builder, MakesEqualNodesOnce) {
  const ValueId a = builder_.node("Neg", {past_}, builder_.type(past_)),
                b = builder_.node("Neg", {past_}, builder_.type(past_));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, builder_.node("Abs", {past_}, builder_.type(past_)));
  EXPECT_EQ(builder_.scalar(2, DType::kFloat32), builder_.scalar(2, DType::kFloat32));
  EXPECT_NE(builder_.scalar(2, DType::kFloat32), builder_.scalar(2, DType::kInt64));
}

TEST_F(Builder, JoinsReshapesAndNamesWhatItCan) {
  const Extent width = constant_extent(1);
  const ValueId once = builder_.reshape(past_, {kBatch, width, kPast});
  const ValueId back = builder_.reshape(once, {kBatch, kPast});
  EXPECT_EQ(back, past_);
}

TEST_F(Builder, AMatrixThatIsReadTheOtherWayRoundIsStoredSo) {
  const auto values = std::make_shared<const std::vector<float>>(std::vector<float>{0, 1, 2, 3, 4, 5});
  const ValueId weight =
      builder_.initializer("w", {DType::kFloat32, {2, 3}, std::as_bytes(std::span(*values)), values});
  const ValueId turned = builder_.transpose(weight, {1, 0});
  builder_.output("y", builder_.node("MatMul", {past_, turned}, {DType::kFloat32, {kBatch, constant_extent(2)}}),
                  DType::kFloat32);
  const WrittenModel model = builder_.finish("test");
  ASSERT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(model.nodes[0].inputs, (Names{"past", "w"}));
  ASSERT_EQ(model.initializers.size(), 1u);
  EXPECT_EQ(model.initializers[0].second.shape, (std::vector<int64_t>{3, 2}));
  const auto* stored = reinterpret_cast<const float*>(model.initializers[0].second.bytes.data());
  EXPECT_EQ(std::vector<float>(stored, stored + 6), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace transom::onnx
