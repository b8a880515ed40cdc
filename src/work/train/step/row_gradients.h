// SPDX-License-Identifier: Apache-2.0
// Gradients by rows of an update's micro-batches.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/nn/sparse_lookups.h"
#include "models/optim/optimizer.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {

// The gradients of tables of which an update uses few rows, as their models note them.
class RowGradients {
 public:
  // The gradients of the loss by the parameters; those of the tables in `lookups` are kept here, and undefined there.
  std::vector<Tensor> take(const Tensor& loss, const std::vector<Tensor>& values,
                           const std::vector<OptimizedParameter>& parameters,
                           const std::vector<SparseLookup>& lookups) {
    if (lookups.empty()) return gradients(loss, values);
    std::vector<Tensor> wanted;
    std::vector<size_t> places;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool by_rows = std::any_of(lookups.begin(), lookups.end(), [&](const SparseLookup& lookup) {
        return lookup.table->name == parameters[i].name;
      });
      if (by_rows) numbers_[parameters[i].name] = i;
      else wanted.push_back(values[i]), places.push_back(i);
    }
    for (const SparseLookup& lookup : lookups) wanted.push_back(lookup.rows);
    const std::vector<Tensor> found = gradients(loss, wanted);
    std::vector<Tensor> result(values.size());
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
    for (size_t i = 0; i < lookups.size(); ++i) {
      const auto number = numbers_.find(lookups[i].table->name);
      if (number == numbers_.end()) continue;  // frozen
      parts_[number->second].push_back({lookups[i].indices, found[places.size() + i]});
    }
    return result;
  }

  // By the numbers of the parameters, each row once.
  std::map<size_t, RowGradient> joined() const {
    std::map<size_t, RowGradient> result;
    for (const auto& [number, parts] : parts_) {
      std::vector<Tensor> indices, rows;
      for (const RowGradient& part : parts) indices.push_back(part.indices), rows.push_back(part.rows);
      result[number] = coalesced(concatenate(indices, 0), concatenate(rows, 0));
    }
    return result;
  }

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> result;
    for (const auto& [number, parts] : parts_)
      for (const RowGradient& part : parts) result.push_back(part.rows);
    return result;
  }

 private:
  std::map<std::string, size_t> numbers_;
  std::map<size_t, std::vector<RowGradient>> parts_;
};

}  // namespace transom
