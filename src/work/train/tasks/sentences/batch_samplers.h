// SPDX-License-Identifier: Apache-2.0
// Which rows of one or several sets are a batch, in the order in which sentence-transformers draws them for a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace transom {

using RowBatches = std::vector<std::vector<int64_t>>;

struct SampledSet {
  int64_t rows = 0;
  // Equal texts have equal numbers: those of a row. Asked for with no_duplicates.
  std::function<std::vector<uint64_t>(int64_t row)> texts;
  std::vector<int64_t> labels;  // of each row; for group_by_label
};

struct BatchSampling {
  std::string batch_sampler = "batch_sampler";
  std::string multi_dataset_batch_sampler = "proportional";
  int64_t seed = 42;
  bool drop_last = false;
};

// The batches of an epoch. Rows are numbered over all sets in turn, and a batch has those of one set. Throws where a
// set allows no batch of the kind.
RowBatches sampled_batches(const std::vector<SampledSet>& sets, const BatchSampling& sampling, int64_t epoch,
                           int64_t batch_size);

}  // namespace transom
