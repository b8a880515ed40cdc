// SPDX-License-Identifier: Apache-2.0
#include "cpu/collectives/reductions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "cpu/device/types.h"

namespace transom::cpu {
namespace {

// Elements [begin, end) of the whole.
struct Part {
  size_t begin, end;
  size_t count() const { return end - begin; }
};

Part part_of(size_t rank, size_t ranks, size_t count) {
  const size_t each = (count + ranks - 1) / ranks;
  return {std::min(count, rank * each), std::min(count, (rank + 1) * each)};
}

template <typename Wide>
Wide combined(Wide x, Wide y, transom_reduction reduction) {
  if (reduction == TRANSOM_SUM) return x + y;
  if (x != x || y != y) return x != x ? x : y;  // NaN stays
  return reduction == TRANSOM_MAX ? std::max(x, y) : std::min(x, y);
}

// Rank r's elements begin at rows[r]; they are combined in `Wide`, in the order of the ranks, some at a time so that
// the sums stay in the first cache.
template <typename Element, typename Wide>
void combine(const std::vector<const std::byte*>& rows, size_t count, transom_reduction reduction, std::byte* to) {
  constexpr size_t kBlock = 1024;
  Wide sums[kBlock];
  auto* out = reinterpret_cast<Element*>(to);
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t here = std::min(kBlock, count - done);
    for (size_t r = 0; r < rows.size(); ++r) {
      const Element* row = reinterpret_cast<const Element*>(rows[r]) + done;
      if (r == 0)
        for (size_t i = 0; i < here; ++i) sums[i] = static_cast<Wide>(row[i]);
      else
        for (size_t i = 0; i < here; ++i) sums[i] = combined(sums[i], static_cast<Wide>(row[i]), reduction);
    }
    for (size_t i = 0; i < here; ++i) out[done + i] = static_cast<Element>(sums[i]);
  }
}

void combine(const std::vector<const std::byte*>& rows, size_t count, transom_dtype dtype, transom_reduction reduction,
             std::byte* to) {
  switch (dtype) {
    case TRANSOM_FLOAT16:
      return combine<Float16, float>(rows, count, reduction, to);
    case TRANSOM_BFLOAT16:
      return combine<BFloat16, float>(rows, count, reduction, to);
    case TRANSOM_FLOAT32:
      return combine<float, float>(rows, count, reduction, to);
    case TRANSOM_FLOAT64:
      return combine<double, double>(rows, count, reduction, to);
    case TRANSOM_INT32:  // wraps around without being undefined
      return reduction == TRANSOM_SUM ? combine<uint32_t, uint32_t>(rows, count, reduction, to)
                                      : combine<int32_t, int32_t>(rows, count, reduction, to);
    case TRANSOM_INT64:
      return reduction == TRANSOM_SUM ? combine<uint64_t, uint64_t>(rows, count, reduction, to)
                                      : combine<int64_t, int64_t>(rows, count, reduction, to);
    default:
      throw std::runtime_error("a type that is not reduced");
  }
}

// Reduces what begins at part_at(r) of `from` on rank r, into `to`, on each rank its own. `part_at` gives [begin, end).
template <typename PartAt>
void reduce_own(Transport& transport, Place place, const std::byte* from, std::byte* to, transom_dtype dtype,
                transom_reduction reduction, PartAt&& part_at) {
  const size_t size = element_size(dtype);
  const Part mine = part_at(place.rank);
  const std::unique_ptr<std::byte[]> others(new std::byte[mine.count() * size * (place.ranks - 1)]);  // not zeroed
  std::vector<const std::byte*> rows(place.ranks, from + mine.begin * size);
  std::vector<Message> messages;
  std::byte* next = others.get();
  // Each rank begins with the next one, so that not all send to the same.
  for (size_t step = 1; step < place.ranks; ++step) {
    const size_t receiver = (place.rank + step) % place.ranks, sender = (place.rank + place.ranks - step) % place.ranks;
    const Part sent = part_at(receiver);
    if (sent.count() > 0)
      messages.push_back({const_cast<std::byte*>(from) + sent.begin * size, sent.count() * size,
                          static_cast<uint32_t>(receiver), true});
    if (mine.count() == 0) continue;
    messages.push_back({next, mine.count() * size, static_cast<uint32_t>(sender), false});
    rows[sender] = next;
    next += mine.count() * size;
  }
  transport.exchange(messages);
  combine(rows, mine.count(), dtype, reduction, to);
}

template <typename Half>
void reduce_wide(Transport& transport, Half* data, size_t count, transom_reduction reduction) {
  std::vector<float> wide(data, data + count);
  transport.all_reduce(wide.data(), count, TRANSOM_FLOAT32, reduction);
  std::copy(wide.begin(), wide.end(), data);
}

// By what the library does itself, for ranks that are not connected each with each.
void reduce_by_library(Transport& transport, std::byte* data, size_t count, transom_dtype dtype,
                       transom_reduction reduction) {
  if (dtype == TRANSOM_BFLOAT16) return reduce_wide(transport, reinterpret_cast<BFloat16*>(data), count, reduction);
  if (dtype == TRANSOM_FLOAT16) return reduce_wide(transport, reinterpret_cast<Float16*>(data), count, reduction);
  transport.all_reduce(data, count, dtype, reduction);
}

}  // namespace

void reduce_to_all(Transport& transport, Place place, std::byte* data, size_t count, transom_dtype dtype,
                   transom_reduction reduction) {
  if (count == 0) return;
  if (!transport.reaches_all()) return reduce_by_library(transport, data, count, dtype, reduction);
  const size_t size = element_size(dtype);
  const auto part_at = [&](size_t rank) { return part_of(rank, place.ranks, count); };
  const Part mine = part_at(place.rank);
  reduce_own(transport, place, data, data + mine.begin * size, dtype, reduction, part_at);
  // Parts may differ in size, and some may be empty.
  std::vector<Message> messages;
  for (size_t step = 1; step < place.ranks; ++step) {
    const size_t receiver = (place.rank + step) % place.ranks, sender = (place.rank + place.ranks - step) % place.ranks;
    const Part theirs = part_at(sender);
    if (mine.count() > 0)
      messages.push_back({data + mine.begin * size, mine.count() * size, static_cast<uint32_t>(receiver), true});
    if (theirs.count() > 0)
      messages.push_back({data + theirs.begin * size, theirs.count() * size, static_cast<uint32_t>(sender), false});
  }
  transport.exchange(messages);
}

void reduce_to_parts(Transport& transport, Place place, const std::byte* from, std::byte* to, size_t count,
                     transom_dtype dtype, transom_reduction reduction) {
  if (count == 0) return;
  const size_t bytes = count * element_size(dtype);
  if (!transport.reaches_all()) {
    std::vector<std::byte> all(from, from + bytes * place.ranks);
    reduce_by_library(transport, all.data(), count * place.ranks, dtype, reduction);
    std::memcpy(to, all.data() + bytes * place.rank, bytes);
    return;
  }
  reduce_own(transport, place, from, to, dtype, reduction, [&](size_t rank) {
    return Part{rank * count, (rank + 1) * count};
  });
}

}  // namespace transom::cpu
