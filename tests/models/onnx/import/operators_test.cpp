// SPDX-License-Identifier: Apache-2.0
// Operators whose meaning changed with the version, or whose types our tensors carry in wider ones. What all operators
// compute is checked with the standard's own node tests (docs/onnx.md).
#include "models/onnx/import/run/operators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/elementwise/small_floats.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model_writer.h"
#include "models/onnx/proto/read_model.h"
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

TEST(Operators, ConvolutionsOfBytesAreExact) {
  const int64_t channels = 300, places = 12, taps = 5, zero = 3;
  std::vector<int64_t> x, w;
  for (int64_t i = 0; i < channels * places; ++i) x.push_back(255 - i * 7 % 11);
  for (int64_t i = 0; i < channels * taps; ++i) w.push_back(127 - i * 5 % 7);
  const Value found =
      compute("ConvInteger", {{ElementType::kUInt8, integers(x, {1, channels, places}, DType::kUInt8)},
                              {ElementType::kInt8, integers(w, {1, channels, taps}, *info(ElementType::kInt8).carrier)},
                              {ElementType::kUInt8, integers({zero}, {}, DType::kUInt8)}});
  std::vector<int64_t> expected;
  for (int64_t place = 0; place + taps <= places; ++place) {
    int64_t sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        sum += (x[static_cast<size_t>(c * places + place + tap)] - zero) * w[static_cast<size_t>(c * taps + tap)];
    expected.push_back(sum);  // about 47 million: more than f32 counts to
  }
  EXPECT_EQ(found.tensor.to_vector<int64_t>(), expected);
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

// ---- ends of ranges, NaN, nothing

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

Value i64(const std::vector<int64_t>& values) { return of_type(ElementType::kInt64, values); }
Value i64_scalar(int64_t value) { return {ElementType::kInt64, integer(value)}; }

// NaN is equal to NaN.
void expect_numbers(const Value& found, const Numbers& expected) {
  const Numbers numbers = found.tensor.to_vector<double>();
  ASSERT_EQ(numbers.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << i << ": " << numbers[i];
    } else {
      EXPECT_EQ(numbers[i], expected[i]) << i;
    }
  }
}

TEST(Operators, BoxesUpToTheLargestNumber) {
  const Value boxes = float_value({0, 0, 1, 1, 0, 0, 1, 1.1, 5, 5, 6, 6}, {1, 3, 4}),
              scores = float_value({0.5, 0.75, 0.25}, {1, 1, 3}), overlap = float_value({0.5}, {1});
  for (const int64_t most : {kMost, kMost - 1, int64_t{1} << 53, int64_t{3}})
    EXPECT_EQ(compute("NonMaxSuppression", {boxes, scores, i64({most}), overlap}).tensor.to_vector<int64_t>(),
              (std::vector<int64_t>{0, 0, 1, 0, 0, 2}))
        << most;
  EXPECT_EQ(compute("NonMaxSuppression", {boxes, scores, i64({0}), overlap}).tensor.size(), 0);
  EXPECT_THROW(compute("NonMaxSuppression", {boxes, scores, i64({}), overlap}), Error);
}

TEST(Operators, RangesOfNumbersBeyondDoubles) {
  const auto range = [](int64_t from, int64_t to, int64_t by) {
    return compute("Range", {i64_scalar(from), i64_scalar(to), i64_scalar(by)}).tensor.to_vector<int64_t>();
  };
  const int64_t far = int64_t{1} << 53, least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(range(far, far + 1, 1), (std::vector<int64_t>{far}));
  EXPECT_EQ(range(kMost - 2, kMost, 1), (std::vector<int64_t>{kMost - 2, kMost - 1}));
  EXPECT_EQ(range(least, kMost, kMost), (std::vector<int64_t>{least, -1, kMost - 1}));
  EXPECT_EQ(range(kMost, least, least), (std::vector<int64_t>{kMost, -1}));
  EXPECT_EQ(range(1, 1, 1).size(), 0u);
  EXPECT_EQ(range(1, 0, 1).size(), 0u);
  EXPECT_THROW(range(0, 1, 0), Error);
}

TEST(Operators, ExtremesOfNothingAreTheEndsOfTheType) {
  const auto extreme = [](const char* op, ElementType type) {
    const Value x(type, zeros({0, 2}, *info(type).carrier));
    return compute(op, {x, i64({0})}, {test::integer("keepdims", 0)}).tensor.to_vector<int64_t>();
  };
  for (const auto& [type, least, most] :
       {std::tuple(ElementType::kInt64, std::numeric_limits<int64_t>::min(), kMost),
        {ElementType::kInt32, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
        {ElementType::kInt8, -128, 127},
        {ElementType::kUInt8, 0, 255},
        {ElementType::kUInt32, 0, 4294967295},
        {ElementType::kUInt64, 0, -1},
        {ElementType::kBool, 0, 1}}) {
    EXPECT_EQ(extreme("ReduceMax", type), (std::vector<int64_t>{least, least})) << name_of(type);
    EXPECT_EQ(extreme("ReduceMin", type), (std::vector<int64_t>{most, most})) << name_of(type);
  }
}

TEST(Operators, TheGreatestNumberOfAllIsNaN) {
  const Value x = float_value({1, kNaN, 3, -kInfinity, kInfinity}, {5});
  const auto first = [&](int64_t largest) {
    return compute("TopK", {x, i64({3})}, {test::integer("largest", largest)});
  };
  expect_numbers(first(1), {kNaN, kInfinity, 3});
  expect_numbers(first(0), {-kInfinity, 1, 3});
  expect_numbers(compute("Unique", {float_value({kNaN, 2, kNaN, 1, 2}, {5})}), {1, 2, kNaN});
  EXPECT_EQ(compute("Unique", {of_type(ElementType::kUInt64, {-1, 5, 0})}).tensor.to_vector<int64_t>(),
            (std::vector<int64_t>{0, 5, -1}));
}

TEST(Operators, ReluOfNaNIsNaN) {
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBFloat16, ElementType::kFloat32, ElementType::kFloat64})
    expect_numbers(compute("Relu", {{type, numbers({kNaN, -1, 2, -kInfinity, -0.0}, {5}, *info(type).carrier)}}),
                   {kNaN, 0, 2, 0, 0});
}

TEST(Operators, ClippedByTheLimitsOfFloatsBeforeOpset11) {
  const Value x = float_value({kInfinity, -kInfinity, 1, kNaN}, {4});
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  expect_numbers(compute("Clip", {x}, {}, 6), {most, -most, 1, kNaN});
  expect_numbers(compute("Clip", {x}, {test::real("max", 0)}, 6), {0, -most, 0, kNaN});
  expect_numbers(compute("Clip", {x}, {}, 11), {kInfinity, -kInfinity, 1, kNaN});
}

TEST(Operators, NegativePadsTakeAwayBeforeTheRestIsPadded) {
  const Value x = float_value({0, 1, 2, 3, 4}, {5});
  const auto padded = [&](const char* mode, std::vector<int64_t> pads) {
    return compute("Pad", {x, i64(pads)}, {test::text("mode", mode)}, 19);
  };
  expect_numbers(padded("wrap", {-1, 2}), {1, 2, 3, 4, 1, 2});
  expect_numbers(padded("wrap", {2, -1}), {2, 3, 0, 1, 2, 3});
  expect_numbers(padded("edge", {-2, 2}), {2, 3, 4, 4, 4});
  expect_numbers(padded("reflect", {-3, 1}), {3, 4, 3});
  expect_numbers(padded("constant", {-1, 1}), {1, 2, 3, 4, 0});
  EXPECT_THROW(padded("wrap", {-5, 1}), Error);  // nothing is left to be repeated
}

// The standard splits the padding, also where a window that is smaller than the stride makes it negative.
TEST(Operators, TransposedConvolutionsOfTheSameSizeMayNeedZeros) {
  const Value x = float_value({1, 2, 3}, {1, 1, 3});
  const auto convolved = [&](int64_t window, int64_t stride, const char* automatic) {
    const Value w = float_value(Numbers(static_cast<size_t>(window), 1), {1, 1, window});
    return compute("ConvTranspose", {x, w}, {test::integers("strides", {stride}), test::text("auto_pad", automatic)});
  };
  for (const char* automatic : {"SAME_UPPER", "SAME_LOWER"})
    expect_numbers(convolved(1, 3, automatic), {0, 1, 0, 0, 2, 0, 0, 3, 0});
  expect_numbers(convolved(1, 2, "SAME_UPPER"), {0, 1, 0, 2, 0, 3});
  expect_numbers(convolved(1, 2, "SAME_LOWER"), {1, 0, 2, 0, 3, 0});
  expect_numbers(convolved(2, 4, "SAME_LOWER"), {0, 1, 1, 0, 0, 2, 2, 0, 0, 3, 3, 0});
  expect_numbers(convolved(3, 2, "SAME_UPPER"), {1, 1, 3, 2, 5, 3});
  expect_numbers(convolved(3, 2, "SAME_LOWER"), {1, 3, 2, 5, 3, 3});
}

TEST(Operators, EinsumSumsIndicesThatComeTwice) {
  const Value square = float_value({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  const auto einsum = [](const char* equation, std::vector<Value> inputs) {
    return compute("Einsum", std::move(inputs), {test::text("equation", equation)});
  };
  expect_numbers(einsum("ii", {square}), {15});
  EXPECT_TRUE(einsum("ii", {square}).tensor.shape().empty());
  expect_numbers(einsum("ii->i", {square}), {1, 5, 9});
  expect_numbers(einsum("...ii", {square}), {15});
  expect_numbers(einsum("ii...->...i", {square}), {1, 5, 9});
  expect_numbers(einsum("ii,ij", {square, square}), {84, 99, 114});
  expect_numbers(einsum("ba", {float_value({1, 2}, {1, 2})}), {1, 2});
  EXPECT_EQ(einsum("ba", {float_value({1, 2}, {1, 2})}).tensor.shape(), (Shape{2, 1}));
  expect_numbers(einsum("iji", {float_value({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})}), {7, 11});
  // What is not on the diagonal plays no part.
  expect_numbers(einsum("ii", {float_value({1, kNaN, kInfinity, 2}, {2, 2})}), {3});
}

TEST(Operators, BitwiseNotTurnsAllBitsOfAllTypes) {
  for (const auto& [type, from, to] : std::vector<std::tuple<ElementType, std::vector<int64_t>, std::vector<int64_t>>>{
           {ElementType::kInt64, {0, 5, -28, kMost}, {-1, -6, 27, std::numeric_limits<int64_t>::min()}},
           {ElementType::kUInt64, {0, 8, -1}, {-1, -9, 0}},  // as their carrier has them
           {ElementType::kInt32, {0, 5, -28}, {-1, -6, 27}},
           {ElementType::kUInt32, {0, 8, 4294967295}, {4294967295, 4294967287, 0}},
           {ElementType::kInt16, {0, 5, -32768}, {-1, -6, 32767}},
           {ElementType::kUInt16, {0, 8, 65535}, {65535, 65527, 0}},
           {ElementType::kInt8, {0, 5, -128}, {-1, -6, 127}},
           {ElementType::kUInt8, {0, 8, 255}, {255, 247, 0}}})
    EXPECT_EQ(compute("BitwiseNot", {of_type(type, from)}).tensor.to_vector<int64_t>(), to) << name_of(type);
}

TEST(Operators, HardmaxOfNothingIsNothing) {
  for (const Shape& shape : {Shape{0}, Shape{2, 0}, Shape{0, 3}, Shape{1, 0, 2}})
    for (const int64_t opset : {11, 18})
      EXPECT_EQ(compute("Hardmax", {float_value({}, shape)}, {}, opset).tensor.shape(), shape) << to_string(shape);
}

// pytorch_half_pixel looks at place 0 where one place is left, for cubic interpolation too.
TEST(Operators, OnePlaceOfPytorchHalfPixelIsTheFirst) {
  const Value x = float_value({-1.25, 2, 3}, {1, 1, 1, 3});
  for (const char* mode : {"nearest", "linear", "cubic"})
    expect_numbers(
        compute("Resize", {x, float_value({}, {0}), float_value({1, 1, 1, 0.5}, {4})},
                {test::text("mode", mode), test::text("coordinate_transformation_mode", "pytorch_half_pixel")}),
        {-1.25});
}

TEST(Operators, OddFunctionsKeepTheSignOfZero) {
  for (const char* op : {"Asinh", "Sinh", "Atan", "Asin", "Tan", "Atanh", "Sin"})
    for (const ElementType type : {ElementType::kFloat16, ElementType::kFloat32, ElementType::kFloat64}) {
      const Value y = compute(op, {{type, numbers({-0.0, 0.0}, {2}, *info(type).carrier)}});
      const std::vector<double> found = y.tensor.to_vector<double>();
      EXPECT_TRUE(found[0] == 0 && std::signbit(found[0])) << op << " " << name_of(type);
      EXPECT_TRUE(found[1] == 0 && !std::signbit(found[1])) << op << " " << name_of(type);
    }
}

// What stands between the places of a window has no part in it.
TEST(Operators, TransposedConvolutionsKeepInfinitiesInTheirPlaces) {
  const Value x = float_value({1, 2}, {1, 1, 2}), w = float_value({1, kInfinity, 3}, {1, 1, 3});
  const auto convolved = [&](std::vector<Message> attributes) { return compute("ConvTranspose", {x, w}, attributes); };
  expect_numbers(convolved({}), {1, kInfinity, kInfinity, 6});
  expect_numbers(convolved({test::integers("strides", {4})}), {1, kInfinity, 3, 0, 2, kInfinity, 6});
  expect_numbers(convolved({test::integers("strides", {3}), test::integers("dilations", {2})}),
                 {1, 0, kInfinity, 2, 3, kInfinity, 0, 6});
  expect_numbers(convolved({test::integers("strides", {4}), test::integers("pads", {0, 2})}), {1, kInfinity, 3, 0, 2});
  const Value two = float_value({1, 2, 3, 4}, {1, 2, 2}), own = float_value({1, kInfinity, kNaN, 2}, {2, 1, 2});
  expect_numbers(compute("ConvTranspose", {two, own}, {test::integers("strides", {3}), test::integer("group", 2)}),
                 {1, kInfinity, 0, 2, kInfinity, kNaN, 6, 0, kNaN, 8});
}

TEST(Operators, PaddingHasNoTerms) {
  const Value x = float_value({1, 2, 3}, {1, 1, 3}), w = float_value({kInfinity, 1, 1}, {1, 1, 3});
  expect_numbers(compute("Conv", {x, w}, {test::integers("pads", {1, 1})}), {3, kInfinity, kInfinity});
}

TEST(Operators, WindowsThatDoNotFitOnceAreRefused) {
  const auto refused = [](const char* op, std::vector<Value> inputs, std::vector<Message> attributes) {
    try {
      compute(op, std::move(inputs), attributes);
    } catch (const Error& error) {
      return std::string(error.what()).find("the window is larger than the padded input") != std::string::npos;
    }
    return false;
  };
  for (const int64_t batch : {0, 1}) {
    const Value x = float_value(Numbers(static_cast<size_t>(2 * batch), 1), {batch, 1, 2});
    for (const int64_t stride : {1, 2, 3}) {
      const std::vector<Message> window = {test::integers("kernel_shape", {3}), test::integers("strides", {stride})};
      for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) EXPECT_TRUE(refused(op, {x}, window)) << op;
      EXPECT_TRUE(refused("Conv", {x, float_value({1, 2, 3}, {1, 1, 3})}, window));
      const std::vector<Message> spread = {test::integers("dilations", {2}), test::integers("strides", {stride})};
      EXPECT_TRUE(refused("Conv", {x, float_value({1, 2}, {1, 1, 2})}, spread));
    }
  }
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
