// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/whole_batch.h"

#include "base/error.h"
#include "graph/ops/movement/collectives.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Each part is computed by itself, so that its shape alone makes the program.
void add_counts(std::vector<Tensor>& totals, const std::vector<Tensor>& counts) {
  if (counts.empty()) return;
  if (!totals.empty() && totals.size() != counts.size())
    fail("the parts of a batch have losses of {} and of {} terms: expected the same", totals.size(), counts.size());
  for (size_t i = 0; i < counts.size(); ++i)
    if (i < totals.size()) totals[i] = totals[i] + counts[i];
    else totals.push_back(counts[i]);
  eval(totals);
}

}  // namespace

void WholeBatch::prepare(ForwardContext& context, LossDivisors& of_part) const {
  context.num_items_in_batch = items;
  if (divisors.empty()) return;
  of_part = LossDivisors(divisors);
  context.loss_divisors = &of_part;
}

WholeBatch whole_batch_of(const PartsOfBatch& parts) {
  WholeBatch whole;
  const ModeScope only_traced(Mode::kLazy);
  const NoGradient only_numbers;
  std::vector<Tensor> items;
  for (const NamedTensors& part : parts.micro_batches)
    if (const Tensor count = parts.count_items(part); count.defined()) add_counts(items, {count});
  if (!parts.group && parts.micro_batches.size() == 1) {
    if (!items.empty()) whole.items = items[0];
    return whole;
  }
  const double processes = parts.group ? static_cast<double>(parts.group->size()) : 1;
  bool is_sum = false;
  if (items.empty())
    for (const NamedTensors& part : parts.micro_batches) {
      LossDivisors divisors;
      parts.trace(part, divisors);
      add_counts(whole.divisors, divisors.counts());
      is_sum = is_sum || divisors.is_sum();
    }
  for (std::vector<Tensor>* totals : {&items, &whole.divisors})
    if (parts.group && !totals->empty()) {
      for (Tensor& total : *totals) total = all_reduce(total, 0);
      eval(*totals);
    }
  // A loss that does not say how it is made counts as much as that of any other part.
  const bool adds_up = is_sum || !items.empty() || !whole.divisors.empty();
  whole.scale = adds_up ? processes : 1 / static_cast<double>(parts.micro_batches.size());
  if (!items.empty()) whole.items = items[0];
  return whole;
}

}  // namespace transom
