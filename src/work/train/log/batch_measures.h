// SPDX-License-Identifier: Apache-2.0
// Numbers of the batches of a run that its log shows beside the loss (entropy, accuracy, rewards), as TRL logs them: of
// each batch, and of these the mean.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

struct BatchMeasures {
  std::vector<std::string> names;  // in the log
  // From the inputs of a batch and what the objective gives beside its loss, part of the graph of the update and
  // without gradients: f32 [k], which adds up over the processes whose rows are one batch.
  std::function<Tensor(const NamedTensors& inputs, const NamedTensors& outputs)> sums;
  // From what they add up to: f32 [2, names], the values of the batch, and 1 for each that it has. A batch without a
  // value (0) is left out of the mean.
  std::function<Tensor(const Tensor& sums)> values;
  bool tokens = true;  // num_tokens too: the tokens of the run so far, without padding
};

// The usual ones: `totals` and `counts` are scalars, one for each name. Sums for ratios_of.
Tensor joined_sums(const std::vector<Tensor>& totals, const std::vector<Tensor>& counts);
// total / count for each name, f32 [2, names]. A batch that counts nothing has 0; with `skips_empty` it has no value.
Tensor ratios_of(const Tensor& sums, bool skips_empty = false);

// Values of several batches, f32 [2, names] each: what they add up to, and in how many they are.
Tensor added_values(const std::vector<Tensor>& batches);

// The means of values that were added up; nothing where no batch had one.
class MeasureMeans {
 public:
  void add(const std::vector<float>& values);  // [2, names]
  void clear() { totals_.clear(); }
  // Empty where nothing was added.
  std::vector<std::optional<double>> means() const;

 private:
  std::vector<double> totals_;
};

}  // namespace transom
