// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/batch_samplers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/numbers/mt19937.h"

namespace transom {
namespace {

// The batches of one set, one after the other. All sets of an epoch draw from one generator, when they are asked.
class SetBatches {
 public:
  virtual ~SetBatches() = default;
  virtual std::optional<std::vector<int64_t>> next() = 0;
};

// torch's RandomSampler and BatchSampler: it draws when it begins, and once more when it is found at its end.
class RandomBatches : public SetBatches {
 public:
  RandomBatches(int64_t rows, int64_t size, bool drop_last, Mt19937& draws)
      : rows_(rows), size_(size), drop_last_(drop_last), draws_(draws) {}

  std::optional<std::vector<int64_t>> next() override {
    if (order_.empty() && !ended_) order_ = draws_.randperm(rows_);
    std::vector<int64_t> batch;
    while (static_cast<int64_t>(batch.size()) < size_ && place_ < rows_)
      batch.push_back(order_[static_cast<size_t>(place_++)]);
    if (static_cast<int64_t>(batch.size()) == size_) return batch;
    if (!ended_) draws_.randperm(rows_);
    ended_ = true;
    if (batch.empty() || drop_last_) return std::nullopt;
    return batch;
  }

 private:
  int64_t rows_, size_;
  bool drop_last_, ended_ = false;
  Mt19937& draws_;
  std::vector<int64_t> order_;
  int64_t place_ = 0;
};

// What makes all its batches once it is asked for the first.
class PreparedBatches : public SetBatches {
 public:
  explicit PreparedBatches(std::function<RowBatches()> make) : make_(std::move(make)) {}
  std::optional<std::vector<int64_t>> next() override {
    if (make_) batches_ = std::exchange(make_, nullptr)();
    if (place_ == batches_.size()) return std::nullopt;
    return batches_[place_++];
  }

 private:
  std::function<RowBatches()> make_;
  RowBatches batches_;
  size_t place_ = 0;
};

int64_t advertised(int64_t rows, int64_t size, bool drop_last) {
  return drop_last ? rows / size : (rows + size - 1) / size;
}

// One shuffle of the rows: a row whose text is in a batch already waits for the next one.
void pass_without_duplicates(const SampledSet& set, int64_t size, bool drop_last, Mt19937& draws, RowBatches& batches) {
  std::vector<int64_t> left = draws.randperm(set.rows), waiting;
  while (!left.empty()) {
    std::vector<int64_t> batch;
    std::unordered_set<uint64_t> seen;
    waiting.clear();
    for (size_t i = 0; i < left.size(); ++i) {
      if (static_cast<int64_t>(batch.size()) == size) {
        waiting.insert(waiting.end(), left.begin() + static_cast<std::ptrdiff_t>(i), left.end());
        break;
      }
      const std::vector<uint64_t> texts = set.texts(left[i]);
      if (std::any_of(texts.begin(), texts.end(), [&](uint64_t text) { return seen.contains(text); })) {
        waiting.push_back(left[i]);
        continue;
      }
      batch.push_back(left[i]);
      seen.insert(texts.begin(), texts.end());
    }
    if (static_cast<int64_t>(batch.size()) == size || !drop_last) batches.push_back(std::move(batch));
    left.swap(waiting);
  }
}

// As many as an epoch has by its rows: what is more is left out, and where a pass gives fewer, rows come again.
RowBatches batches_without_duplicates(const SampledSet& set, int64_t size, bool drop_last, Mt19937& draws) {
  const int64_t count = advertised(set.rows, size, drop_last);
  RowBatches batches;
  while (static_cast<int64_t>(batches.size()) < count) {
    const size_t before = batches.size();
    pass_without_duplicates(set, size, drop_last, draws, batches);
    if (batches.size() == before)
      fail(ErrorKind::kUsage,
           "--batch_sampler no_duplicates: expected {} rows without a text in common, found no such rows; give a "
           "smaller "
           "--per_device_train_batch_size",
           size);
  }
  batches.resize(static_cast<size_t>(count));
  return batches;
}

struct LabelGroups {
  std::vector<std::vector<int64_t>> rows;  // in the order of the labels' first rows
  int64_t used = 0;                        // rows that come in an epoch
};

LabelGroups groups_of(const SampledSet& set, int64_t size) {
  if (size < 4 || size % 2 == 1)
    fail(ErrorKind::kUsage, "--batch_sampler group_by_label: expected an even batch size of at least 4, found {}",
         size);
  std::map<int64_t, size_t> place;
  std::vector<std::vector<int64_t>> all;
  for (int64_t row = 0; row < set.rows; ++row) {
    const auto [found, is_new] = place.emplace(set.labels.at(static_cast<size_t>(row)), all.size());
    if (is_new) all.emplace_back();
    all[found->second].push_back(row);
  }
  LabelGroups groups;
  std::vector<int64_t> pairs;
  for (std::vector<int64_t>& rows : all)
    if (rows.size() >= 2) {
      pairs.push_back(static_cast<int64_t>(rows.size()) / 2);
      groups.rows.push_back(std::move(rows));
    }
  if (pairs.size() < 2)
    fail(ErrorKind::kUsage,
         "--batch_sampler group_by_label: expected two labels with two rows each or more, found {} such labels",
         pairs.size());
  std::sort(pairs.rbegin(), pairs.rend());
  for (const int64_t each : pairs) groups.used += 2 * std::min(each, pairs[1]);
  return groups;
}

// Labels take turns with two rows each, in a new order each round, until one of them is left alone.
RowBatches batches_by_label(const SampledSet& set, int64_t size, bool drop_last, Mt19937& draws) {
  const LabelGroups groups = groups_of(set, size);
  std::vector<std::deque<int64_t>> queues;
  for (const std::vector<int64_t>& rows : groups.rows) {
    std::vector<int64_t> order = draws.randperm(static_cast<int64_t>(rows.size()));
    order.resize(rows.size() / 2 * 2);
    std::deque<int64_t>& queue = queues.emplace_back();
    for (const int64_t i : order) queue.push_back(rows[static_cast<size_t>(i)]);
  }
  std::vector<size_t> left(queues.size());
  std::iota(left.begin(), left.end(), size_t{0});
  RowBatches batches;
  std::vector<int64_t> batch;
  std::optional<size_t> last;
  while (left.size() >= 2) {
    std::vector<size_t> order;
    for (const int64_t i : draws.randperm(static_cast<int64_t>(left.size())))
      order.push_back(left[static_cast<size_t>(i)]);
    if (!batch.empty() && order[0] == last) std::swap(order[0], order[1]);
    for (const size_t label : order)
      for (int k = 0; k < 2; ++k) {
        batch.push_back(queues[label].front());
        queues[label].pop_front();
        if (static_cast<int64_t>(batch.size()) == size) batches.push_back(std::exchange(batch, {}));
      }
    last = order.back();
    left.clear();
    for (const size_t label : order)
      if (!queues[label].empty()) left.push_back(label);
  }
  if (!drop_last && batch.size() >= 4) batches.push_back(std::move(batch));
  return batches;
}

int64_t batches_of_set(const SampledSet& set, const BatchSampling& sampling, int64_t size) {
  if (sampling.batch_sampler != "group_by_label") return advertised(set.rows, size, sampling.drop_last);
  const int64_t used = groups_of(set, size).used;
  return used / size + (!sampling.drop_last && used % size >= 4 ? 1 : 0);
}

std::unique_ptr<SetBatches> batches_from(const SampledSet& set, const BatchSampling& sampling, uint64_t seed,
                                         int64_t size, Mt19937& draws) {
  if (sampling.batch_sampler == "batch_sampler")
    return std::make_unique<RandomBatches>(set.rows, size, sampling.drop_last, draws);
  const bool by_label = sampling.batch_sampler == "group_by_label";
  return std::make_unique<PreparedBatches>([&set, &draws, seed, size, by_label, drop_last = sampling.drop_last] {
    draws.seed(seed);  // the library's samplers seed the generator that all share
    return by_label ? batches_by_label(set, size, drop_last, draws)
                    : batches_without_duplicates(set, size, drop_last, draws);
  });
}

}  // namespace

RowBatches sampled_batches(const std::vector<SampledSet>& sets, const BatchSampling& sampling, int64_t epoch,
                           int64_t batch_size) {
  const uint64_t seed = static_cast<uint64_t>(sampling.seed) + static_cast<uint64_t>(epoch);
  Mt19937 draws(seed);
  std::vector<std::unique_ptr<SetBatches>> from;
  std::vector<int64_t> offsets, turns;  // turns: a set for each batch
  int64_t rows = 0, fewest = INT64_MAX;
  for (size_t i = 0; i < sets.size(); ++i) {
    const int64_t count = batches_of_set(sets[i], sampling, batch_size);
    if (count == 0) fail("a set of {} rows gives no batch of {}", sets[i].rows, batch_size);
    from.push_back(batches_from(sets[i], sampling, seed, batch_size, draws));
    offsets.push_back(rows);
    rows += sets[i].rows;
    fewest = std::min(fewest, count);
    turns.insert(turns.end(), static_cast<size_t>(count), static_cast<int64_t>(i));
  }
  if (sets.size() > 1 && sampling.multi_dataset_batch_sampler == "round_robin") {
    turns.clear();
    for (int64_t round = 0; round < fewest; ++round)
      for (size_t i = 0; i < sets.size(); ++i) turns.push_back(static_cast<int64_t>(i));
  } else if (sets.size() > 1) {
    std::vector<int64_t> drawn;
    for (const int64_t i : draws.randperm(static_cast<int64_t>(turns.size())))
      drawn.push_back(turns[static_cast<size_t>(i)]);
    turns = std::move(drawn);
  }
  RowBatches batches;
  for (const int64_t set : turns) {
    std::optional<std::vector<int64_t>> batch = from[static_cast<size_t>(set)]->next();
    if (!batch) continue;
    for (int64_t& row : *batch) row += offsets[static_cast<size_t>(set)];
    batches.push_back(std::move(*batch));
  }
  return batches;
}

}  // namespace transom
