// SPDX-License-Identifier: Apache-2.0
// What is chosen by values: places of what is not 0, and boxes, which are found among their neighbours as comparing all
// with all finds them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model_writer.h"
#include "models/onnx/proto/read_model.h"

namespace transom::onnx {
namespace {

using Doubles = std::vector<double>;
constexpr size_t kBoxes = 300;

struct Drawn {
  Doubles boxes, scores;  // numbers of float32
};

// Boxes of twenty places far from each other, as exporters move those of each class to a place of its own; some reach
// through all places, some are nowhere, some have no width.
Drawn drawn_boxes() {
  Drawn result;
  uint64_t state = 7;
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) / 0x1p24;
  };
  for (size_t i = 0; i < kBoxes; ++i) {
    const double place = 400 * std::floor(draw() * 20), y = place + draw() * 300, x = place + draw() * 300;
    Doubles box = {y, x, y + draw() * 90, x + (i % 50 == 3 ? 0 : draw() * 90)};
    if (i % 60 == 7) box[0] = i % 120 == 7 ? -std::numeric_limits<double>::infinity() : std::nan("");
    if (i % 60 == 9) box[2] = 9000;
    for (const double number : box) result.boxes.push_back(static_cast<float>(number));
    result.scores.push_back(static_cast<float>(draw()));
  }
  return result;
}

double shared_part(const double* p, const double* q) {
  double sides = 1, of_p = 1, of_q = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const double low_p = std::min(p[axis], p[axis + 2]), high_p = std::max(p[axis], p[axis + 2]),
                 low_q = std::min(q[axis], q[axis + 2]), high_q = std::max(q[axis], q[axis + 2]),
                 side = std::min(high_p, high_q) - std::max(low_p, low_q);
    if (side <= 0) return 0;
    sides *= side, of_p *= high_p - low_p, of_q *= high_q - low_q;
  }
  return sides / (of_p + of_q - sides);
}

std::vector<int64_t> by_comparing_all(const Drawn& drawn, double threshold) {
  std::vector<size_t> order(kBoxes), kept;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return drawn.scores[a] > drawn.scores[b]; });
  std::vector<int64_t> chosen;
  for (const size_t i : order) {
    const auto overlaps = [&](size_t j) {
      return shared_part(drawn.boxes.data() + 4 * i, drawn.boxes.data() + 4 * j) > threshold;
    };
    if (std::any_of(kept.begin(), kept.end(), overlaps)) continue;
    kept.push_back(i);
    chosen.insert(chosen.end(), {0, 0, static_cast<int64_t>(i)});
  }
  return chosen;
}

TEST(NonZero, GivesThePlacesOfAllAxes) {
  test::GraphParts parts;
  parts.inputs = {test::value("x", ElementType::kFloat32, {-1, -1, -1})};
  parts.nodes = {test::node("NonZero", {"x"}, {"y"}, {})};
  parts.outputs = {test::Message().text(1, "y")};
  const auto bytes = std::make_shared<const std::string>(test::model(parts, 18));
  const ImportedGraph graph(parse_model(*bytes, "m.onnx", bytes));
  const Doubles x = {0, 1, 0, 0, std::nan(""), 0, -2, 0, 0, 0, 0, 5};
  const auto of = [&](const Doubles& values, const Shape& shape) {
    return graph.run({{"x", {ElementType::kFloat32, numbers(values, shape, DType::kFloat32)}}})[0].second.tensor;
  };
  EXPECT_EQ(of(x, {2, 3, 2}).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 1, 0, 2, 0, 2, 1, 0, 0, 1}));
  EXPECT_EQ(of({}, {2, 0, 2}).shape(), (Shape{3, 0}));
}

TEST(NonMaxSuppression, KeepsWhatComparingAllKeeps) {
  const Drawn drawn = drawn_boxes();
  test::GraphParts parts;
  const std::vector<std::string> names = {"boxes", "scores", "most", "threshold"};
  for (size_t i = 0; i < names.size(); ++i)
    parts.inputs.push_back(test::value(names[i], i == 2 ? ElementType::kInt64 : ElementType::kFloat32,
                                       std::vector<int64_t>(i < 2 ? 3 : 1, -1)));
  parts.nodes = {test::node("NonMaxSuppression", names, {"y"}, {})};
  parts.outputs = {test::Message().text(1, "y")};
  const auto bytes = std::make_shared<const std::string>(test::model(parts, 18));
  const ImportedGraph graph(parse_model(*bytes, "m.onnx", bytes));
  constexpr int64_t kCount = kBoxes;
  for (const double threshold : {0.3, 0.0, -1.0}) {
    const NamedValues inputs = {
        {"boxes", {ElementType::kFloat32, numbers(drawn.boxes, {1, kCount, 4}, DType::kFloat32)}},
        {"scores", {ElementType::kFloat32, numbers(drawn.scores, {1, 1, kCount}, DType::kFloat32)}},
        {"most", {ElementType::kInt64, integers({std::numeric_limits<int64_t>::max()}, {1}, DType::kInt64)}},
        {"threshold", {ElementType::kFloat32, numbers({threshold}, {1}, DType::kFloat32)}}};
    const double rounded = static_cast<float>(threshold);
    const std::vector<int64_t> found = graph.run(inputs)[0].second.tensor.to_vector<int64_t>();
    EXPECT_EQ(found, by_comparing_all(drawn, rounded)) << threshold;
    EXPECT_EQ(found.size() == 3, threshold < 0);
  }
}

}  // namespace
}  // namespace transom::onnx
