// SPDX-License-Identifier: Apache-2.0
// Operators whose meaning changed with the version, or whose types our tensors carry in wider ones. What all operators
// compute is checked with the standard's own node tests (docs/onnx.md).
#include "onnx/import/run/operators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "onnx/import/elementwise/element_values.h"
#include "onnx/import/elementwise/small_floats.h"
#include "onnx/import/run/imported_graph.h"
#include "onnx/model_writer.h"
#include "onnx/proto/read_model.h"
#include "transom/error.h"

namespace transom::onnx {
namespace {

using test::Message;
using Numbers = std::vector<double>;

// One node with inputs a, b, c ... and the output y.
Value compute(const std::string& op, std::vector<Value> inputs, const std::vector<Message>& attributes = {},
              int64_t opset = 18) {
  test::GraphParts parts;
  std::vector<std::string> names;
  NamedValues values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.emplace_back(1, static_cast<char>('a' + i));
    std::vector<int64_t> open(inputs[i].tensor.shape().size(), -1);
    parts.inputs.push_back(test::value(names.back(), inputs[i].type, open));
    values.emplace_back(names.back(), inputs[i]);
  }
  parts.nodes = {test::node(op, names, {"y"}, attributes)};
  parts.outputs = {Message().text(1, "y")};
  const auto bytes = std::make_shared<const std::string>(test::model(parts, opset));
  return ImportedGraph(parse_model(*bytes, "m.onnx", bytes)).run(values)[0].second;
}

Value float_value(const Numbers& values, const Shape& shape) {
  return {ElementType::kFloat32, numbers(values, shape, DType::kFloat32)};
}
Value of_type(ElementType type, const std::vector<int64_t>& values) {
  return {type, integers(values, {static_cast<int64_t>(values.size())}, *info(type).carrier)};
}

TEST(Operators, SoftmaxFlattensBeforeOpset13) {
  const Value x = float_value({0, 0, 0, 0}, {1, 2, 2});
  EXPECT_EQ(compute("Softmax", {x}, {}, 12).tensor.to_vector<double>(), (Numbers{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(compute("Softmax", {x}, {}, 13).tensor.to_vector<double>(), (Numbers{0.5, 0.5, 0.5, 0.5}));
}

TEST(Operators, AxesAreAttributeOrInput) {
  const Value x = float_value({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(compute("ReduceSum", {x}, {test::integers("axes", {1}), test::integer("keepdims", 0)}, 12)
                .tensor.to_vector<double>(),
            (Numbers{3, 7}));
  EXPECT_EQ(compute("ReduceSum", {x, of_type(ElementType::kInt64, {1})}, {test::integer("keepdims", 0)}, 13)
                .tensor.to_vector<double>(),
            (Numbers{3, 7}));
  EXPECT_EQ(compute("ReduceMax", {x}, {test::integers("axes", {0}), test::integer("keepdims", 0)}, 13)
                .tensor.to_vector<double>(),
            (Numbers{3, 4}));
}

TEST(Operators, BroadcastingByAnAxisBeforeOpset7) {
  const Value x = float_value({1, 2, 3, 4}, {2, 2}), y = float_value({10, 20}, {2});
  EXPECT_EQ(
      compute("Add", {x, y}, {test::integer("broadcast", 1), test::integer("axis", 0)}, 6).tensor.to_vector<double>(),
      (Numbers{11, 12, 23, 24}));
  EXPECT_THROW(compute("Add", {x, y}, {}, 6), Error);
  EXPECT_EQ(compute("Add", {x, y}).tensor.to_vector<double>(), (Numbers{11, 22, 13, 24}));
}

TEST(Operators, NarrowIntegersWrapAround) {
  EXPECT_EQ(compute("Add", {of_type(ElementType::kInt16, {32767}), of_type(ElementType::kInt16, {1})})
                .tensor.to_vector<int64_t>(),
            (std::vector<int64_t>{-32768}));
  EXPECT_EQ(compute("Sub", {of_type(ElementType::kUInt16, {0}), of_type(ElementType::kUInt16, {1})})
                .tensor.to_vector<int64_t>(),
            (std::vector<int64_t>{65535}));
}

TEST(Operators, UnsignedWordsAboveTheSign) {
  const int64_t top = std::numeric_limits<int64_t>::min();  // 2^63 as an unsigned number
  const Value x = of_type(ElementType::kUInt64, {top, -1, 7}), y = of_type(ElementType::kUInt64, {3, 10, -1});
  EXPECT_EQ(compute("Div", {x, y}).tensor.to_vector<int64_t>(),
            (std::vector<int64_t>{3074457345618258602, 1844674407370955161, 0}));
  EXPECT_EQ(compute("Less", {x, y}).tensor.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(compute("BitShift", {x, of_type(ElementType::kUInt64, {63, 60, 64})}, {test::text("direction", "RIGHT")})
                .tensor.to_vector<int64_t>(),
            (std::vector<int64_t>{1, 15, 0}));
  EXPECT_EQ(compute("Cast", {x}, {test::integer("to", static_cast<int64_t>(ElementType::kFloat64))})
                .tensor.to_vector<double>(),
            (Numbers{9223372036854775808.0, 18446744073709551616.0, 7}));
}

TEST(Operators, RegionsOfAnImage) {
  Numbers ramp;  // two images of 4 x 8: the column, and ten times it
  for (const double factor : {1, 10})
    for (int i = 0; i < 32; ++i) ramp.push_back(factor * (i % 8));
  const Value x = float_value(ramp, {2, 1, 4, 8}), images = of_type(ElementType::kInt64, {0, 1}),
              regions = float_value({2, 1, 6, 3, 1, 0, 5, 4}, {2, 4});
  // Means of samples on both sides of the middle; half a pixel less where pixels have their centres in the middle.
  for (const int64_t ratio : {0, 2, 3})
    for (const auto& [mode, expected] : {std::pair("half_pixel", Numbers{3.5, 25}), {"output_half_pixel", {4, 30}}}) {
      const Numbers found =
          compute("RoiAlign", {x, regions, images},
                  {test::integer("sampling_ratio", ratio), test::text("coordinate_transformation_mode", mode)}, 16)
              .tensor.to_vector<double>();
      ASSERT_EQ(found.size(), 2u);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << mode << " " << ratio;
    }
  EXPECT_THROW(compute("RoiAlign", {x, float_value({0, 0, 1, 1}, {1, 4}), images}, {}, 16), Error);
}

TEST(Operators, SmallFloatsRoundToNearestEven) {
  for (const ElementType type : {ElementType::kFloat8E4M3FN, ElementType::kFloat8E5M2, ElementType::kFloat8E4M3FNUZ,
                                 ElementType::kFloat8E5M2FNUZ, ElementType::kFloat4E2M1}) {
    const int count = 1 << info(type).bits;
    Numbers values, middles;
    for (int bits = 0; bits < count / 2; ++bits) {
      const float now = small_float_value(static_cast<uint8_t>(bits), type),
                  next = small_float_value(static_cast<uint8_t>(bits + 1), type);
      if (!std::isfinite(now)) continue;
      EXPECT_EQ(small_float_bits(now, type), bits);
      values.push_back(static_cast<double>(now));
      if (bits + 1 == count / 2 || !std::isfinite(next)) continue;
      // Halfway between two neighbours lies the one with even bits.
      const double middle = (static_cast<double>(now) + static_cast<double>(next)) / 2;
      middles.push_back(middle);
      const Tensor rounded = round_to_small_float(numbers({middle}, {1}, DType::kFloat32), type, true);
      EXPECT_EQ(rounded.item<double>(), static_cast<double>(bits % 2 == 0 ? now : next)) << name_of(type) << bits;
      if (bits > 24) bits += 12;  // a part of them is enough
    }
    const Tensor x = numbers(values, {static_cast<int64_t>(values.size())}, DType::kFloat32);
    EXPECT_EQ(round_to_small_float(x, type, true).to_vector<double>(), values) << name_of(type);
  }
}

TEST(Operators, IntegersOfFourBitsArePacked) {
  const std::vector<uint8_t> bytes{0x21, 0x0f};
  const Value value = value_of_bytes(std::as_bytes(std::span(bytes)), ElementType::kInt4, {3}, nullptr);
  EXPECT_EQ(value.tensor.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, -1}));
  const std::vector<std::byte> packed = packed_bytes(value);
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(std::to_integer<int>(packed[0]), 0x21);
  EXPECT_EQ(std::to_integer<int>(packed[1]), 0x0f);
}

TEST(Operators, SlicesWalkBackwards) {
  const Value x = float_value({0, 1, 2, 3, 4}, {5});
  const auto i64 = [](std::vector<int64_t> values) { return of_type(ElementType::kInt64, values); };
  const int64_t far = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(compute("Slice", {x, i64({-1}), i64({-far}), i64({0}), i64({-2})}).tensor.to_vector<double>(),
            (Numbers{4, 2, 0}));
  EXPECT_EQ(compute("Slice", {x, i64({1}), i64({far}), i64({0}), i64({3})}).tensor.to_vector<double>(),
            (Numbers{1, 4}));
  EXPECT_EQ(compute("Slice", {x, i64({4}), i64({2})}).tensor.size(), 0);
}

TEST(Operators, QuantisedProductsAreExact) {
  // (a - 1) (b - 2) with 8-bit values, in i32.
  const Value a{ElementType::kUInt8, integers({3, 255, 0, 7}, {2, 2}, DType::kUInt8)},
      b{ElementType::kInt8, integers({-128, 127, 4, 2}, {2, 2}, DType::kInt8)},
      za{ElementType::kUInt8, integer(1, DType::kUInt8)}, zb{ElementType::kInt8, integer(2, DType::kInt8)};
  const Value y = compute("MatMulInteger", {a, b, za, zb});
  EXPECT_EQ(y.type, ElementType::kInt32);
  EXPECT_EQ(y.tensor.to_vector<int64_t>(), (std::vector<int64_t>{2 * -130 + 254 * 2, 2 * 125 + 0, 130 + 6 * 2, -125}));
}

TEST(Operators, EveryRecordHasAFunctionAndARange) {
  for (const OperatorRecord& record : all_operators()) {
    EXPECT_NE(record.run, nullptr) << record.name;
    EXPECT_LE(record.first, record.last) << record.name;
    EXPECT_EQ(find_operator(record.domain, record.name, record.first)->run, record.run) << record.name;
  }
}

}  // namespace
}  // namespace transom::onnx
