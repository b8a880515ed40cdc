// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/texts_in_rows.h"

#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

// Attention and positions are made of these numbers by sums and look-ups, which do not tell of others.
void expect_texts_in_order(const Tensor& numbers) {
  if (!numbers.node()->computed(numbers.output())) return;
  if (!is_in_host_memory(numbers) && !buffer_of(numbers)->host_pointer()) return;
  const std::vector<int64_t> values = numbers.to_vector<int64_t>();
  const int64_t length = numbers.dim(1);
  for (int64_t place = 0; place < static_cast<int64_t>(values.size()); ++place) {
    const int64_t value = values[static_cast<size_t>(place)];
    const int64_t before = place % length == 0 ? -1 : values[static_cast<size_t>(place) - 1];
    const bool begins = place % length == 0;
    if (begins ? value != 0 : value != before && value != before + 1)
      fail("seq_idx: row {}, place {}: expected {}, found {}", place / length, place % length,
           begins ? "0" : fmt::format("{} or {}", before, before + 1), value);
  }
}

}  // namespace

TextsInRows texts_in_rows(const Tensor& seq_idx) {
  if (seq_idx.rank() != 2 || !is_integer(seq_idx.dtype()) || seq_idx.size() == 0)
    fail("seq_idx: expected whole numbers [batch, length], found {}", to_string(seq_idx.type()));
  const Tensor numbers = cast(seq_idx, DType::kInt64);
  expect_texts_in_order(numbers);
  const int64_t B = numbers.dim(0), T = numbers.dim(1);
  const Shape shape{B, T};
  // As many texts as a row may have, each with the number of its tokens.
  const Tensor of_batch = reshape(B == 1 ? numbers : numbers + iota(shape, 0) * static_cast<double>(T), {B * T});
  const Tensor counts = scatter_add(zeros({B * T}, DType::kInt64), of_batch, full({B * T}, 1, DType::kInt64), 0);
  const Tensor ends = reshape(cumulative_sum(reshape(counts, shape), 1), {B * T});
  const Tensor begin = reshape(gather(ends - counts, of_batch, 0), shape),
               end = reshape(gather(ends, of_batch, 0), shape);
  return {concatenate({unsqueeze(begin, 2), unsqueeze(end, 2)}, 2), iota(shape, 1) - begin, numbers};
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
