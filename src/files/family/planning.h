// SPDX-License-Identifier: Apache-2.0
// What the planner cannot see in a family's parameters.
#pragma once

#include "files/family/stated.h"

namespace transom {

struct FamilyPlanning {
  Stated<bool> fused_attention;  // the usual implementations never write the probabilities of attention to memory
  double local_share = 1;        // of the layers, those that see a window alone, where the configuration has one
};

}  // namespace transom
