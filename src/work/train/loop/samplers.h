// SPDX-License-Identifier: Apache-2.0
// The order in which rows come, equal to that of Trainer for a seed, and how ranks share it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/numbers/mt19937.h"

namespace transom {

using Order = std::vector<int64_t>;
using Batches = std::vector<Order>;  // row numbers, a batch each

Order sequential_order(int64_t rows);

// Accelerate's SeedableRandomSampler: epoch e is torch.randperm of a generator seeded with seed + e.
Order random_order(int64_t rows, int64_t seed, int64_t epoch);

// Trainer's LengthGroupedSampler: a random order, cut into pieces of many batches, each sorted from long to short; the
// longest row of all comes first, so that memory runs out early if it does.
Order length_grouped_order(std::span<const int64_t> lengths, int64_t batch_size, Mt19937& generator);

// `size` is at least 1; the last batch may be smaller unless it is dropped.
Batches batches_of(const Order& order, int64_t size, bool drop_last);

// Accelerate's BatchSamplerShard: every rank takes whole batches in turn. Where the last round is not full it is
// dropped (drop_last), filled with rows from the start (even_batches), or left uneven.
Batches shard(const Batches& batches, int64_t batch_size, int64_t ranks, int64_t rank, bool drop_last,
              bool even_batches = true);

struct SamplerOptions {
  std::string strategy = "random";  // or sequential, group_by_length
  int64_t seed = 42;  // of random: TrainingArguments::sampling_seed(); of group_by_length: seed, which seeds all else
  int64_t batch_size = 8;    // of one rank
  int64_t accumulation = 1;  // group_by_length sorts for whole updates
  bool drop_last = false;
  int64_t ranks = 1, rank = 0;
  // In place of all that: see TrainingData.
  std::function<Batches(int64_t epoch, int64_t batch_size)> batches;
};

// The batches of each epoch for one rank, epochs asked for in any order. With group_by_length, Trainer draws from the
// one generator that also seeds its loaders and drives dropout; here it is that generator as it is without dropout.
class TrainSampler {
 public:
  // `lengths` only for group_by_length; one for each row.
  TrainSampler(int64_t rows, SamplerOptions options, std::vector<int64_t> lengths = {});
  // `evaluations[e]`: how many evaluations came before epoch e, each of which seeded a loader. Epochs beyond the list
  // had no more than the last of it.
  Batches epoch(int64_t number, std::span<const int64_t> evaluations = {}) const;
  // Batches of one rank in an epoch.
  int64_t batches_per_epoch() const;

 private:
  Order order(int64_t epoch, std::span<const int64_t> evaluations) const;
  int64_t rows_;
  SamplerOptions options_;
  std::vector<int64_t> lengths_;
};

// Where a run stands after `step` updates.
struct Position {
  int64_t epoch = 0;
  int64_t batch = 0;  // batches of this epoch that were seen already
};
Position resume_position(int64_t step, int64_t batches_per_epoch, int64_t accumulation);

// How long a run is, as Trainer counts: updates of an epoch (the last may have fewer batches), of the run, and epochs.
struct Duration {
  int64_t updates_per_epoch = 0, updates = 0, epochs = 0;
};
Duration duration_of(int64_t batches_per_epoch, int64_t accumulation, double epochs, int64_t max_steps);

}  // namespace transom
