// SPDX-License-Identifier: Apache-2.0
// Operators whose results have as many elements as the values of their inputs say: the values are read while the graph
// is computed, step by step. BitCast reads them too.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"
#include "graph/ops/rules.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {
namespace {

Results non_zero(Call& call) {
  const Shape& shape = call.shape(0);
  const std::vector<double> values = call.numbers(0);
  std::vector<int64_t> found;  // of a detector these are the most of hundreds of thousands of scores
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) found.push_back(static_cast<int64_t>(i));
  const size_t count = found.size();
  std::vector<int64_t> places(shape.size() * count);
  for (size_t axis = shape.size(); axis-- > 0;)
    for (size_t i = 0; i < count; ++i) {
      places[axis * count + i] = axis == 0 ? found[i] : found[i] % shape[axis];
      found[i] /= shape[axis];
    }
  return {{ElementType::kInt64,
           integers(places, {static_cast<int64_t>(shape.size()), static_cast<int64_t>(count)}, DType::kInt64)}};
}

Results compress(Call& call) {
  Tensor x = call.tensor(0);
  int64_t axis = 0;
  if (call.attribute("axis")) axis = call.axis(call.integer("axis", 0), x.rank());
  else x = reshape(x, {x.size()});
  const std::vector<int64_t> condition = call.integers(1);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size() && static_cast<int64_t>(i) < x.dim(axis); ++i)
    if (condition[i]) kept.push_back(static_cast<int64_t>(i));
  return {{call.type(0), gather(x, integers(kept), axis)}};
}

// The distinct slices along an axis, or elements; rising, or in the order of their first place.
Results unique(Call& call) {
  Tensor x = call.tensor(0);
  int64_t axis = 0;
  if (call.attribute("axis")) axis = call.axis(call.integer("axis", 0), x.rank());
  else x = reshape(x, {x.size()});
  const int64_t count = x.dim(axis), width = count == 0 ? 0 : x.size() / count;
  const Array values = call.run().host_values().read(reshape(transpose(x, 0, axis), {count, width}));
  const bool is_unsigned_word = call.type(0) == ElementType::kUInt64;
  const auto is_less = [&](size_t p, size_t q) {
    if (values.floating())  // NaN stands behind all numbers, and is one value
      return values.real[p] < values.real[q] || (std::isnan(values.real[q]) && !std::isnan(values.real[p]));
    if (is_unsigned_word) return static_cast<uint64_t>(values.integer[p]) < static_cast<uint64_t>(values.integer[q]);
    return values.integer[p] < values.integer[q];
  };
  const auto before = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < width; ++i) {
      const auto p = static_cast<size_t>(a * width + i), q = static_cast<size_t>(b * width + i);
      if (is_less(p, q)) return true;
      if (is_less(q, p)) return false;
    }
    return false;
  };
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  std::vector<std::vector<int64_t>> groups;
  for (const int64_t i : order) {
    if (groups.empty() || before(groups.back()[0], i)) groups.emplace_back();
    groups.back().push_back(i);
  }
  if (call.integer("sorted", 1) == 0)
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  std::vector<int64_t> first, inverse(static_cast<size_t>(count)), counts;
  for (size_t g = 0; g < groups.size(); ++g) {
    first.push_back(groups[g][0]);
    counts.push_back(static_cast<int64_t>(groups[g].size()));
    for (const int64_t i : groups[g]) inverse[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  }
  return {{call.type(0), gather(x, integers(first), axis)},
          {ElementType::kInt64, integers(first)},
          {ElementType::kInt64, integers(inverse)},
          {ElementType::kInt64, integers(counts)}};
}

// ---- NonMaxSuppression

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
  bool finite() const { return std::isfinite(y1) && std::isfinite(y2) && std::isfinite(x1) && std::isfinite(x2); }
};

Box box_of(const double* p, bool centred) {
  if (centred) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
               width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const double shared = height * width;
  return shared / (a.area() + b.area() - shared);
}

// Boxes that were kept, in bands by where they begin. Exporters move the boxes of each class to a place of its own, so
// that one list is searched for all classes: a box is compared with those of its neighbourhood alone.
class KeptBoxes {
 public:
  // `boxes`: all that may come. Where even boxes that are apart overlap more than `threshold` there is one band.
  KeptBoxes(const std::vector<Box>& boxes, double threshold) : threshold_(threshold) {
    double last = -std::numeric_limits<double>::infinity();
    first_ = -last;
    for (const Box& box : boxes)
      if (box.finite()) first_ = std::min(first_, box.y1), last = std::max(last, box.y1);
    const double range = last - first_;
    if (threshold >= 0 && range > 0 && std::isfinite(range)) scale_ = (kBands - 1) / range;
    bands_.resize(scale_ > 0 ? kBands : 1);
  }

  bool suppress(const Box& box) const {
    size_t begin = 0, end = bands_.size();
    if (box.finite() && scale_ > 0) begin = band_of(box.y1 - tallest_), end = band_of(box.y2) + 1;
    const auto overlaps = [&](const Box& other) { return overlap(box, other) > threshold_; };
    for (size_t band = begin; band < end; ++band)
      if (std::any_of(bands_[band].begin(), bands_[band].end(), overlaps)) return true;
    return std::any_of(elsewhere_.begin(), elsewhere_.end(), overlaps);
  }

  void add(const Box& box) {
    ++size_;
    if (!box.finite()) return elsewhere_.push_back(box);
    tallest_ = std::max(tallest_, box.y2 - box.y1);
    bands_[scale_ > 0 ? band_of(box.y1) : 0].push_back(box);
  }

  int64_t size() const { return size_; }

 private:
  static constexpr int kBands = 1024;
  size_t band_of(double y) const {
    return static_cast<size_t>(std::clamp((y - first_) * scale_, 0.0, static_cast<double>(kBands - 1)));
  }

  double threshold_, first_ = 0, scale_ = 0, tallest_ = 0;
  int64_t size_ = 0;
  std::vector<std::vector<Box>> bands_;
  std::vector<Box> elsewhere_;  // what has no place
};

Results non_max_suppression(Call& call) {
  const Shape &boxes_shape = call.shape(0), &scores_shape = call.shape(1);
  call.require(boxes_shape.size() == 3 && boxes_shape[2] == 4 && scores_shape.size() == 3 &&
                   scores_shape[0] == boxes_shape[0] && scores_shape[2] == boxes_shape[1],
               "expected boxes [B, N, 4] and scores [B, C, N]");
  const std::vector<double> boxes = call.numbers(0), scores = call.numbers(1);
  const int64_t most = call.has(2) ? call.integer_of(call.tensor(2)) : 0;
  const double threshold = call.has(3) ? call.number_of(call.tensor(3)) : 0,
               least = call.has(4) ? call.number_of(call.tensor(4)) : -std::numeric_limits<double>::infinity();
  const bool centred = call.integer("center_point_box", 0) != 0;
  const int64_t B = scores_shape[0], C = scores_shape[1], N = scores_shape[2];
  std::vector<int64_t> chosen;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t c = 0; c < C; ++c) {
      const double* row = scores.data() + (b * C + c) * N;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < N; ++i)
        if (!call.has(4) || row[i] > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return row[x] > row[y]; });
      std::vector<Box> candidates;
      for (const int64_t i : order) candidates.push_back(box_of(boxes.data() + (b * N + i) * 4, centred));
      KeptBoxes kept(candidates, threshold);
      for (size_t i = 0; i < order.size() && kept.size() < most; ++i) {
        if (kept.suppress(candidates[i])) continue;
        kept.add(candidates[i]);
        chosen.insert(chosen.end(), {b, c, order[i]});
      }
    }
  return {{ElementType::kInt64, integers(chosen, {static_cast<int64_t>(chosen.size() / 3), 3}, DType::kInt64)}};
}

Results bit_cast(Call& call) {
  const ElementTypeInfo* type = find_element_type(call.integer("to"));
  if (!type || !type->carrier) call.not_supported("this element type");
  call.require(type->bits == info(call.type(0)).bits, "the types differ in size");
  call.run().host_values().read(call.tensor(0));  // throws where the value is not known
  const auto bytes = std::make_shared<const std::vector<std::byte>>(packed_bytes(call.value(0)));
  return {value_of_bytes(*bytes, type->type, call.shape(0), bytes)};
}

}  // namespace

const RegisterOperators kSelection = {{"NonZero", non_zero, 9},
                                      {"Compress", compress, 9},
                                      {"Unique", unique, 11},
                                      {"NonMaxSuppression", non_max_suppression, 10},
                                      {"BitCast", bit_cast, 26}};

}  // namespace transom::onnx
