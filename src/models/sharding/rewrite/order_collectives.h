// SPDX-License-Identifier: Apache-2.0
// The order in which collectives start. It is the same on all processes, since it follows from the order in which they
// were made, and not from sizes, which differ between processes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transom/tensor.h"

namespace transom {

// The layer of a module's path: "model.layers.3" of "model.layers.3.self_attn.q_proj"; empty outside of layers.
std::string_view layer_of_scope(std::string_view scope);

// Numbers units of collectives: those of one layer that follow each other (the units of Zhao et al., "PyTorch FSDP",
// 2023); outside of layers a unit ends at 32 MB.
class CollectiveUnits {
 public:
  // The unit of the next collective, whose result takes so many bytes.
  int64_t next(std::string_view scope, int64_t bytes);
  // The last unit; -1: none.
  int64_t current() const { return current_; }

 private:
  int64_t current_ = -1, bytes_ = 0;
  std::string layer_;
};

// Gives the collectives that these tensors are computed with their final attributes `order`; before they are numbered
// as they were made. Gathers of parameters (which have `unit` and `late`) go by units: at the place of the first of a
// unit all of the next one start, to travel while this unit computes, so that two units are whole at a time. Sums of
// gradients (which have `unit` alone) start together, at the place of the last of their unit or before the first that
// needs one of them. All others keep their order.
void order_collectives(const std::vector<Tensor>& outputs);

}  // namespace transom
