// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/gradient_buckets.h"

#include <algorithm>
#include <map>

#include "graph/ops/movement/collectives.h"
#include "transom/distributed.h"
#include "transom/ops.h"

namespace transom {

std::vector<std::vector<size_t>> plan_buckets(const std::vector<Tensor>& tensors, int64_t bytes, int64_t first_bytes) {
  std::vector<std::vector<size_t>> buckets;
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0;
  };
  std::map<DType, Open> open;
  for (size_t i = tensors.size(); i-- > 0;) {
    if (!tensors[i].defined()) continue;
    Open& bucket = open[tensors[i].dtype()];
    bucket.members.push_back(i);
    bucket.bytes += tensors[i].size() * static_cast<int64_t>(size_of(tensors[i].dtype()));
    if (bucket.bytes < (buckets.empty() ? std::min(first_bytes, bytes) : bytes)) continue;
    buckets.push_back(std::move(bucket.members));
    bucket = {};
  }
  for (auto& [dtype, bucket] : open)
    if (!bucket.members.empty()) buckets.push_back(std::move(bucket.members));
  return buckets;
}

std::vector<Tensor> mean_over_processes(const std::vector<Tensor>& tensors, double megabytes) {
  constexpr double kMegabyte = 1 << 20;
  const double share = 1.0 / static_cast<double>(process_count());
  const auto buckets = plan_buckets(tensors, static_cast<int64_t>(megabytes * kMegabyte), int64_t{1} << 20);
  std::vector<Tensor> result(tensors.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::vector<Tensor> flat;
    for (const size_t i : buckets[b]) flat.push_back(reshape(tensors[i], {-1}));
    const Tensor mean =
        all_reduce(flat.size() == 1 ? flat[0] : concatenate(flat, 0), kAfterBackward + static_cast<int64_t>(b)) * share;
    int64_t begin = 0;
    for (const size_t i : buckets[b]) {
      const int64_t end = begin + tensors[i].size();
      result[i] = reshape(slice(mean, 0, begin, end), tensors[i].shape());
      begin = end;
    }
  }
  return result;
}

}  // namespace transom
