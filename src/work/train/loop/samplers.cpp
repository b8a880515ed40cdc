// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/samplers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace transom {

Order sequential_order(int64_t rows) {
  Order order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

Order random_order(int64_t rows, int64_t seed, int64_t epoch) {
  return Mt19937(static_cast<uint64_t>(seed) + static_cast<uint64_t>(epoch)).randperm(rows);
}

Order length_grouped_order(std::span<const int64_t> lengths, int64_t batch_size, Mt19937& generator) {
  const auto rows = static_cast<int64_t>(lengths.size());
  Order order = generator.randperm(rows);
  if (rows == 0) return order;
  const auto length = [&](int64_t row) { return lengths[static_cast<size_t>(row)]; };
  const int64_t piece = std::clamp<int64_t>(rows / (batch_size * 4), 1, 50) * batch_size;
  int64_t longest = 0;  // where the first piece with the longest row begins
  for (int64_t start = 0; start < rows; start += piece) {
    std::stable_sort(order.begin() + start, order.begin() + std::min(rows, start + piece),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
    if (length(order[static_cast<size_t>(start)]) > length(order[static_cast<size_t>(longest)])) longest = start;
  }
  std::swap(order[0], order[static_cast<size_t>(longest)]);
  return order;
}

Batches batches_of(const Order& order, int64_t size, bool drop_last) {
  require(size >= 1, "batches: expected a size of at least 1, found {}", size);
  Batches batches;
  const auto rows = static_cast<int64_t>(order.size());
  for (int64_t start = 0; start < rows && !(drop_last && start + size > rows); start += size)
    batches.emplace_back(order.begin() + start, order.begin() + std::min(rows, start + size));
  return batches;
}

Batches shard(const Batches& batches, int64_t batch_size, int64_t ranks, int64_t rank, bool drop_last,
              bool even_batches) {
  require(ranks >= 1 && rank >= 0 && rank < ranks, "shard: expected a rank below {}, found {}", ranks, rank);
  if (ranks == 1) return batches;  // Accelerate does not wrap the loader of a single process, which stays uneven
  Batches mine;
  Order first;  // rows to fill up with
  const auto count = static_cast<int64_t>(batches.size());
  const auto full = [&](const Order& batch) { return static_cast<int64_t>(batch.size()) == batch_size; };
  const bool last_is_full = count > 0 && full(batches.back());
  const int64_t rounds = count % ranks == 0 && last_is_full ? count / ranks : (count - (last_is_full ? 0 : 1)) / ranks;
  for (int64_t round = 0; round < rounds; ++round) mine.push_back(batches[static_cast<size_t>(round * ranks + rank)]);
  if (drop_last || rounds * ranks == count) return mine;
  if (!even_batches) {
    if (rounds * ranks + rank < count) mine.push_back(batches[static_cast<size_t>(rounds * ranks + rank)]);
    return mine;
  }
  for (int64_t i = 0; i < std::min(ranks, count); ++i)
    first.insert(first.end(), batches[static_cast<size_t>(i)].begin(), batches[static_cast<size_t>(i)].end());
  // The rows of the unfinished round, and then rows from the start as often as is needed.
  Order rest;
  for (int64_t i = rounds * ranks; i < count; ++i)
    rest.insert(rest.end(), batches[static_cast<size_t>(i)].begin(), batches[static_cast<size_t>(i)].end());
  for (size_t i = 0; static_cast<int64_t>(rest.size()) < ranks * batch_size; ++i)
    rest.push_back(first[i % first.size()]);
  mine.emplace_back(rest.begin() + rank * batch_size, rest.begin() + (rank + 1) * batch_size);
  return mine;
}

TrainSampler::TrainSampler(int64_t rows, SamplerOptions options, std::vector<int64_t> lengths)
    : rows_(rows), options_(std::move(options)), lengths_(std::move(lengths)) {
  require(options_.strategy != "group_by_length" || static_cast<int64_t>(lengths_.size()) == rows,
          "group_by_length: expected the lengths of {} rows, found {}", rows, lengths_.size());
  require(batches_per_epoch() > 0, "training data: expected at least one batch of {} rows, found {} rows",
          options_.batch_size, rows);
}

Order TrainSampler::order(int64_t epoch, std::span<const int64_t> evaluations) const {
  if (options_.strategy == "sequential") return sequential_order(rows_);
  if (options_.strategy == "random") return random_order(rows_, options_.seed, epoch);
  require(options_.strategy == "group_by_length",
          "train_sampling_strategy: expected random, sequential or group_by_length, found '{}'", options_.strategy);
  Mt19937 generator(static_cast<uint64_t>(options_.seed));
  for (int64_t e = 0, evaluated = 0;; ++e) {
    for (; static_cast<size_t>(e) < evaluations.size() && evaluated < evaluations[static_cast<size_t>(e)]; ++evaluated)
      generator.random_int64();
    generator.random_int64();  // the loader draws a seed for its workers before the sampler draws
    Order order = length_grouped_order(lengths_, options_.batch_size * options_.accumulation, generator);
    if (e == epoch) return order;
  }
}

Batches TrainSampler::epoch(int64_t number, std::span<const int64_t> evaluations) const {
  if (options_.batches)
    return shard(options_.batches(number, options_.batch_size), options_.batch_size, options_.ranks, options_.rank,
                 options_.drop_last);
  return shard(batches_of(order(number, evaluations), options_.batch_size, options_.drop_last), options_.batch_size,
               options_.ranks, options_.rank, options_.drop_last);
}

int64_t TrainSampler::batches_per_epoch() const {
  if (options_.batches) return static_cast<int64_t>(epoch(0).size());
  const int64_t all =
      options_.drop_last ? rows_ / options_.batch_size : (rows_ + options_.batch_size - 1) / options_.batch_size;
  return options_.drop_last ? all / options_.ranks : (all + options_.ranks - 1) / options_.ranks;
}

Duration duration_of(int64_t batches_per_epoch, int64_t accumulation, double epochs, int64_t max_steps) {
  Duration duration;
  duration.updates_per_epoch = std::max<int64_t>((batches_per_epoch + accumulation - 1) / accumulation, 1);
  if (max_steps > 0) {
    duration.updates = max_steps;
    duration.epochs = (max_steps + duration.updates_per_epoch - 1) / duration.updates_per_epoch;
  } else {
    duration.updates = static_cast<int64_t>(std::ceil(epochs * static_cast<double>(duration.updates_per_epoch)));
    duration.epochs = static_cast<int64_t>(std::ceil(epochs));
  }
  return duration;
}

Position resume_position(int64_t step, int64_t batches_per_epoch, int64_t accumulation) {
  const int64_t updates = duration_of(batches_per_epoch, accumulation, 1, -1).updates_per_epoch;
  return {step / updates, step % updates * accumulation};
}

}  // namespace transom
