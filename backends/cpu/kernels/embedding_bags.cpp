// SPDX-License-Identifier: Apache-2.0
// embedding_bags of f32: the rows of all bags of a sample are added where the result has them, in the order of their
// indices. Rows of large tables lie anywhere in memory, so that the next ones are fetched while one is added.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/device/threads.h"
#include "cpu/kernels/kernel.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

struct Table {
  int64_t rows, indices;
  bool wide;  // i64 indices, else i32
};

class Bags {
 public:
  explicit Bags(const Node& node) {
    const Type &dense = node.input(0), &offsets = node.input(1), &result = node.output();
    const size_t tables = (node.input_count() - 2) / 2;
    bool fits = node.input_count() >= 4 && node.input_count() % 2 == 0 && dense.rank() == 2 &&
                offsets.dtype == TRANSOM_INT64 && dense.dtype == TRANSOM_FLOAT32 && result.dtype == TRANSOM_FLOAT32;
    if (fits) samples_ = dense.shape[0], width_ = dense.shape[1];
    const auto vectors = static_cast<int64_t>(tables) + 1;
    fits = fits && offsets.shape == Shape{vectors - 1, samples_} && result.shape == Shape{samples_, vectors, width_};
    for (size_t i = 0; fits && i < tables; ++i) {
      const Type &table = node.input(2 + i), &indices = node.input(2 + tables + i);
      fits = table.dtype == TRANSOM_FLOAT32 && table.rank() == 2 && table.shape[1] == width_ && indices.rank() == 1 &&
             (indices.dtype == TRANSOM_INT32 || indices.dtype == TRANSOM_INT64);
      if (fits) tables_.push_back({table.shape[0], indices.shape[0], indices.dtype == TRANSOM_INT64});
    }
    if (!fits)
      fail(TRANSOM_INVALID_ARGUMENT,
           "expected dense vectors f32, offsets i64 [tables, samples], tables of such vectors and their indices, found "
           "{} and {} of {} tensors, to {}",
           to_string(dense), to_string(offsets), node.input_count(), to_string(result));
  }

  void run(const Arguments& arguments) const {
    if (samples_ == 0 || width_ == 0) return;
    std::vector<Beginnings> beginnings;
    for (size_t i = 0; i < tables_.size(); ++i)
      beginnings.push_back(beginnings_of(tables_[i], arguments.input<int64_t>(1) + static_cast<int64_t>(i) * samples_));
    const auto row = static_cast<int64_t>(tables_.size() + 1) * width_;
    parallel_ranges(samples_, std::max<int64_t>((1 << 14) / row, 1),
                    [&](int64_t begin, int64_t end) { add_bags(arguments, beginnings, begin, end); });
  }

 private:
  // Where the bags of a table begin, ascending; those behind the last vector are empty.
  struct Beginnings {
    const int64_t* offsets;
    std::vector<int64_t> sorted;  // where the offsets are not
    int64_t at(int64_t bag) const { return sorted.empty() ? offsets[bag] : sorted[static_cast<size_t>(bag)]; }
  };
  // A row of a table, and which vector of the range it belongs to.
  struct Term {
    const float* row;
    int64_t vector;
  };

  Beginnings beginnings_of(const Table& table, const int64_t* offsets) const {
    Beginnings found{offsets, {}};
    if (!std::is_sorted(offsets, offsets + samples_)) {
      found.sorted.assign(offsets, offsets + samples_);
      std::sort(found.sorted.begin(), found.sorted.end());
    }
    if (found.at(0) < 0 || (found.at(0) > 0 && table.indices > 0))
      fail(TRANSOM_INVALID_ARGUMENT, "expected bags from offset 0 on, found the first at {}", found.at(0));
    return found;
  }

  const float* row_at(const Arguments& arguments, size_t table, int64_t i) const {
    const std::byte* indices = arguments.inputs[2 + tables_.size() + table];
    const int64_t index = tables_[table].wide ? reinterpret_cast<const int64_t*>(indices)[i]
                                              : reinterpret_cast<const int32_t*>(indices)[i];
    if (index < 0 || index >= tables_[table].rows)
      fail(TRANSOM_INVALID_ARGUMENT, "expected indices in [0, {}), found {} at place {}", tables_[table].rows, index,
           i);
    return arguments.input<float>(2 + table) + index * width_;
  }

  void add_bags(const Arguments& arguments, const std::vector<Beginnings>& beginnings, int64_t begin,
                int64_t end) const {
    constexpr size_t kAhead = 12;
    const auto vectors = static_cast<int64_t>(tables_.size()) + 1;
    std::vector<Term> terms;
    for (int64_t sample = begin; sample < end; ++sample)
      for (size_t table = 0; table < tables_.size(); ++table) {
        const int64_t count = tables_[table].indices, first = std::min(beginnings[table].at(sample), count);
        const int64_t last = sample + 1 < samples_ ? std::min(beginnings[table].at(sample + 1), count) : count;
        const int64_t vector = sample * vectors + 1 + static_cast<int64_t>(table);
        if (first == last) std::fill_n(arguments.output<float>() + vector * width_, width_, 0.0f);
        for (int64_t i = first; i < last; ++i) terms.push_back({row_at(arguments, table, i), vector});
      }
    const std::vector<float> zeros(static_cast<size_t>(width_), 0.0f);
    const TileFunction add = vector_kernels().binary[kAdd][kF32];
    const int64_t fetched = std::min<int64_t>(width_, 256);
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i + kAhead < terms.size())
        for (int64_t at = 0; at < fetched; at += 16) __builtin_prefetch(terms[i + kAhead].row + at);
      float* y = arguments.output<float>() + terms[i].vector * width_;
      const bool starts = i == 0 || terms[i - 1].vector != terms[i].vector;
      add(y, starts ? zeros.data() : y, terms[i].row, nullptr, static_cast<size_t>(width_));
    }
    for (int64_t sample = begin; sample < end; ++sample)
      std::memcpy(arguments.output<float>() + sample * vectors * width_, arguments.input<float>(0) + sample * width_,
                  static_cast<size_t>(width_) * sizeof(float));
  }

  int64_t samples_ = 0, width_ = 0;
  std::vector<Table> tables_;
};

bool claims_floats(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  return inputs.size() >= 4 && inputs[0].dtype == TRANSOM_FLOAT32;
}

}  // namespace

void add_embedding_bag_kernels(KernelTable& table) {
  table["embedding_bags"] = {
      [](const Node& node) {
        return Kernel{"add rows of bags", [bags = Bags(node)](const Arguments& arguments) { bags.run(arguments); }};
      },
      claims_floats};
}

}  // namespace transom::cpu
