// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/texts_in_rows.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

// The length of the longest text, or 0 where the numbers are not at hand. Attention and positions are made of them by
// sums and look-ups, which do not tell of numbers that are wrong.
int64_t check_texts(const Tensor& numbers) {
  if (!numbers.node()->computed(numbers.output())) return 0;
  if (!is_in_host_memory(numbers) && !buffer_of(numbers)->host_pointer()) return 0;
  const std::vector<int64_t> values = numbers.to_vector<int64_t>();
  const int64_t length = numbers.dim(1);
  int64_t longest = 0, tokens = 0;
  for (int64_t place = 0; place < static_cast<int64_t>(values.size()); ++place) {
    const int64_t value = values[static_cast<size_t>(place)];
    const int64_t before = place % length == 0 ? -1 : values[static_cast<size_t>(place) - 1];
    const bool begins = place % length == 0;
    if (begins ? value != 0 : value != before && value != before + 1)
      fail("seq_idx: row {}, place {}: expected {}, found {}", place / length, place % length,
           begins ? "0" : fmt::format("{} or {}", before, before + 1), value);
    tokens = value == before && !begins ? tokens + 1 : 1;
    longest = std::max(longest, tokens);
  }
  return longest;
}

}  // namespace

TextsInRows texts_in_rows(const Tensor& seq_idx) {
  if (seq_idx.rank() != 2 || !is_integer(seq_idx.dtype()) || seq_idx.size() == 0)
    fail("seq_idx: expected whole numbers [batch, length], found {}", to_string(seq_idx.type()));
  const int64_t longest = check_texts(seq_idx);
  const Tensor numbers = cast(seq_idx, DType::kInt64);
  const int64_t B = numbers.dim(0), T = numbers.dim(1);
  const Shape shape{B, T};
  // As many texts as a row may have, each with the number of its tokens.
  const Tensor of_batch = reshape(B == 1 ? numbers : numbers + iota(shape, 0) * static_cast<double>(T), {B * T});
  const Tensor counts = scatter_add(zeros({B * T}, DType::kInt64), of_batch, full({B * T}, 1, DType::kInt64), 0);
  const Tensor ends = reshape(cumulative_sum(reshape(counts, shape), 1), {B * T});
  const Tensor begin = reshape(gather(ends - counts, of_batch, 0), shape),
               end = reshape(gather(ends, of_batch, 0), shape);
  return {concatenate({unsqueeze(begin, 2), unsqueeze(end, 2)}, 2), iota(shape, 1) - begin, numbers, longest};
}

void expect_longest(const TextsInRows& texts, int64_t positions) {
  if (texts.longest > positions)
    fail("a text has {} tokens; this model takes at most {} (max_position_embeddings); truncate it", texts.longest,
         positions);
}

TextsInRows within_window(const TextsInRows& texts, int64_t window) {
  const Shape shape = texts.numbers.shape();
  const Tensor place = iota(shape, 1);
  const auto bound = [&](int64_t side) { return squeeze(slice(texts.ranges, 2, side, side + 1), 2); };
  const Tensor begin = maximum(bound(0), place - static_cast<double>(window)),
               end = minimum(bound(1), place + static_cast<double>(window + 1));
  TextsInRows near = texts;
  near.ranges = concatenate({unsqueeze(begin, 2), unsqueeze(end, 2)}, 2);
  return near;
}

Tensor next_labels(const Tensor& labels, const TextsInRows& texts) {
  if (labels.shape() != texts.numbers.shape())
    fail("labels: expected {}, as seq_idx, found {}", to_string(texts.numbers.shape()), to_string(labels.shape()));
  const int64_t T = labels.dim(1);
  const Tensor next = pad(slice(cast(labels, DType::kInt64), 1, 1, T), {0, 0}, {0, 1}, -100);
  const Tensor text_of_next = pad(slice(texts.numbers, 1, 1, T), {0, 0}, {0, 1}, -1);
  return select(equal(text_of_next, texts.numbers), next, full(next.shape(), -100, DType::kInt64));
}

}  // namespace transom
