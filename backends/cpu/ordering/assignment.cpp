// SPDX-License-Identifier: Apache-2.0
// linear_sum_assignment: shortest augmenting paths (Crouse, 2016), a matrix of costs a task.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"

namespace transom::cpu {
namespace {

constexpr int64_t kUnassigned = -1;

// A matrix whose lines each get a place; there are no more lines than places.
class AssignmentSearch {
 public:
  AssignmentSearch(int64_t lines, int64_t places)
      : lines_(lines),
        places_(places),
        costs_(static_cast<size_t>(lines * places)),
        line_prices_(size(lines)),
        place_prices_(size(places)),
        place_of_(size(lines), kUnassigned),
        line_at_(size(places), kUnassigned) {}

  double& cost(int64_t line, int64_t place) { return costs_[size(line * places_ + place)]; }
  int64_t place_of(int64_t line) const { return place_of_[size(line)]; }

  void run() {
    for (int64_t line = 0; line < lines_; ++line) {
      const int64_t end = find_path(line);
      raise_prices(line);
      for (int64_t place = end, at = kUnassigned; at != line;) {
        at = path_[size(place)];
        line_at_[size(place)] = at;
        std::swap(place_of_[size(at)], place);
      }
    }
  }

 private:
  static size_t size(int64_t x) { return static_cast<size_t>(x); }

  // The cheapest way from a line to a place that is free (Dijkstra's search over reduced costs).
  int64_t find_path(int64_t line) {
    shortest_.assign(size(places_), std::numeric_limits<double>::infinity());
    path_.assign(size(places_), kUnassigned);
    seen_places_.assign(size(places_), 0);
    seen_lines_.assign(size(lines_), 0);
    lowest_ = 0;
    while (true) {
      seen_lines_[size(line)] = 1;
      int64_t next = kUnassigned;
      double best = std::numeric_limits<double>::infinity();
      for (int64_t place = 0; place < places_; ++place) {
        const size_t at = size(place);
        if (seen_places_[at] != 0) continue;
        const double reached = lowest_ + cost(line, place) - line_prices_[size(line)] - place_prices_[at];
        if (reached < shortest_[at]) {
          shortest_[at] = reached;
          path_[at] = line;
        }
        // Of equal ones a free place, which ends the search.
        if (next == kUnassigned || shortest_[at] < best ||
            (shortest_[at] == best && line_at_[at] == kUnassigned && line_at_[size(next)] != kUnassigned)) {
          best = shortest_[at];
          next = place;
        }
      }
      lowest_ = best;
      seen_places_[size(next)] = 1;
      if (line_at_[size(next)] == kUnassigned) return next;
      line = line_at_[size(next)];
    }
  }

  void raise_prices(int64_t begin) {
    line_prices_[size(begin)] += lowest_;
    for (int64_t line = 0; line < lines_; ++line)
      if (seen_lines_[size(line)] != 0 && line != begin)
        line_prices_[size(line)] += lowest_ - shortest_[size(place_of_[size(line)])];
    for (int64_t place = 0; place < places_; ++place)
      if (seen_places_[size(place)] != 0) place_prices_[size(place)] -= lowest_ - shortest_[size(place)];
  }

  int64_t lines_, places_;
  std::vector<double> costs_, line_prices_, place_prices_, shortest_;
  std::vector<int64_t> place_of_, line_at_, path_;
  std::vector<char> seen_places_, seen_lines_;
  double lowest_ = 0;
};

void assign_columns(const float* cost, const bool* counted, int64_t rows, int64_t columns, int64_t* out) {
  std::vector<int64_t> kept;
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = kUnassigned;
    if (counted[c]) kept.push_back(c);
  }
  const auto count = static_cast<int64_t>(kept.size());
  if (count == 0 || rows == 0) return;
  const bool by_column = count <= rows;
  AssignmentSearch search(by_column ? count : rows, by_column ? rows : count);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const float value = cost[row * columns + kept[static_cast<size_t>(i)]];
      const double finite = std::isfinite(value) ? value : std::numeric_limits<float>::max();
      (by_column ? search.cost(i, row) : search.cost(row, i)) = finite;
    }
  search.run();
  for (int64_t line = 0; line < (by_column ? count : rows); ++line) {
    const int64_t place = search.place_of(line);
    out[kept[static_cast<size_t>(by_column ? line : place)]] = by_column ? place : line;
  }
}

Kernel make_assignment(const Node& node) {
  const Type &cost = node.input(0), &counted = node.input(1);
  if (cost.dtype != TRANSOM_FLOAT32 || cost.rank() != 3 || counted.dtype != TRANSOM_BOOL || counted.rank() != 2)
    fail(TRANSOM_INVALID_ARGUMENT, "expected costs f32[B, R, C] and bool[B, C], found {} and {}", to_string(cost),
         to_string(counted));
  const int64_t B = cost.shape[0], R = cost.shape[1], C = cost.shape[2];
  return {"assignment", [=](const Arguments& arguments) {
            const float* costs = arguments.input<float>(0);
            const bool* counts = arguments.input<bool>(1);
            int64_t* rows = arguments.output<int64_t>();
            parallel_ranges(B, 1, [&](int64_t begin, int64_t end) {
              for (int64_t b = begin; b < end; ++b)
                assign_columns(costs + b * R * C, counts + b * C, R, C, rows + b * C);
            });
          }};
}

}  // namespace

void add_assignment_kernels(KernelTable& table) { table["linear_sum_assignment"] = make_assignment; }

}  // namespace transom::cpu
