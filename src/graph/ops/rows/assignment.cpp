// SPDX-License-Identifier: Apache-2.0
// Which rows of a matrix of costs belong to which columns, so that the sum is least.
#include "graph/ops/rows/assignment.h"

#include <limits>

#include "graph/ops/rules.h"

namespace transom {
namespace {

// The potentials of rows and columns, by which every assigned pair costs nothing and no other pair less than nothing.
// Lines are assigned one by one, each along the cheapest path of exchanges; a path takes time by the square.
class Potentials {
 public:
  // `cost(line, place)`: every line gets a place, so that there are no more lines than places.
  template <typename Cost>
  Potentials(size_t lines, size_t places, const Cost& cost)
      : of_line_(lines + 1, 0), of_place_(places + 1, 0), line_at_(places + 1, 0), before_(places + 1, 0) {
    for (size_t line = 1; line <= lines; ++line) add(line, places, cost);
  }
  // The line at a place; nothing: 0 is none, lines count from 1 as places do.
  size_t line_at(size_t place) const { return line_at_[place + 1]; }

 private:
  template <typename Cost>
  void add(size_t line, size_t places, const Cost& cost) {
    std::vector<double> least(places + 1, std::numeric_limits<double>::infinity());
    std::vector<bool> seen(places + 1, false);
    size_t place = 0;
    for (line_at_[0] = line; line_at_[place] != 0;) {
      seen[place] = true;
      const size_t there = line_at_[place];
      size_t next = 0;
      double step = std::numeric_limits<double>::infinity();
      for (size_t i = 1; i <= places; ++i) {
        if (seen[i]) continue;
        const double reduced = cost(there - 1, i - 1) - of_line_[there] - of_place_[i];
        if (reduced < least[i]) least[i] = reduced, before_[i] = place;
        if (least[i] < step) step = least[i], next = i;
      }
      for (size_t i = 0; i <= places; ++i) {
        if (seen[i]) of_line_[line_at_[i]] += step, of_place_[i] -= step;
        else least[i] -= step;
      }
      place = next;
    }
    for (; place != 0; place = before_[place]) line_at_[place] = line_at_[before_[place]];
  }

  std::vector<double> of_line_, of_place_;
  std::vector<size_t> line_at_, before_;
};

// One matrix of costs: writes the row of each column.
void assign(std::span<const double> cost, std::span<const int64_t> counted, int64_t rows, std::span<int64_t> out) {
  std::fill(out.begin(), out.end(), -1);
  std::vector<size_t> columns;
  for (size_t c = 0; c < counted.size(); ++c)
    if (counted[c] != 0) columns.push_back(c);
  const auto R = static_cast<size_t>(rows);
  if (columns.empty() || R == 0) return;
  const auto at = [&](size_t row, size_t column) {
    const double value = cost[row * counted.size() + columns[column]];
    return std::isfinite(value) ? value : static_cast<double>(std::numeric_limits<float>::max());
  };
  if (columns.size() <= R) {
    const Potentials found(columns.size(), R, [&](size_t line, size_t place) { return at(place, line); });
    for (size_t row = 0; row < R; ++row)
      if (const size_t line = found.line_at(row); line != 0) out[columns[line - 1]] = static_cast<int64_t>(row);
  } else {
    const Potentials found(R, columns.size(), [&](size_t line, size_t place) { return at(line, place); });
    for (size_t column = 0; column < columns.size(); ++column)
      if (const size_t line = found.line_at(column); line != 0) out[columns[column]] = static_cast<int64_t>(line) - 1;
  }
}

const Operation kAssignment = {
    .name = "linear_sum_assignment",
    .documentation =
        "(cost f32 [B, R, C], counted bool [B, C]): i64 [B, C], the row of each counted column, each row at most once, "
        "so that the sum of the costs is least; -1: none. A cost that is not finite counts as the largest f32.",
    .stops_gradient = true,
    .category = Category::kOther,
    .flops =
        [](const CostRequest& request) {  // a path for each column, by the square
          const Shape& shape = request.inputs[0].shape;
          return static_cast<double>(shape[0]) * static_cast<double>(shape[1]) * static_cast<double>(shape[2]) *
                 static_cast<double>(std::min(shape[1], shape[2]));
        },
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      check(in, in.dtype(0) == DType::kFloat32 && in.rank(0) == 3, "expected costs f32[B, R, C], found {}",
            in.inputs[0]);
      const Shape columns{in.shape(0)[0], in.shape(0)[2]};
      check(in, in.inputs[1] == Type{DType::kBool, columns}, "expected counted bool{}, found {}", columns,
            in.inputs[1]);
      return {{DType::kInt64, columns}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          const Shape& shape = in[0].type.shape;
          const auto matrix = static_cast<size_t>(shape[1] * shape[2]), columns = static_cast<size_t>(shape[2]);
          for (size_t b = 0; b < static_cast<size_t>(shape[0]); ++b)
            assign(std::span(in[0].real).subspan(b * matrix, matrix),
                   std::span(in[1].integer).subspan(b * columns, columns), shape[1],
                   std::span(out[0].integer).subspan(b * columns, columns));
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const Shape& shape : {Shape{2, 6, 3}, Shape{3, 4, 4}, Shape{2, 3, 7}, Shape{1, 1, 1}, Shape{2, 5, 0}})
        samples.push_back({{{DType::kFloat32, shape}, {DType::kBool, {shape[0], shape[2]}}}, {}, -3, 3, 2});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredAssignment{&kAssignment};

Tensor linear_sum_assignment(const Tensor& cost, const Tensor& counted) {
  return make_tensor(kAssignment, {cost, counted}, {});
}

}  // namespace transom
