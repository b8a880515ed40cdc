// SPDX-License-Identifier: Apache-2.0
// With which bytes a text may go on where a rule ends: most tokens that go on behind the end of a text of a JSON string
// need not be looked at, since only a quote can follow.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

using ByteSet = std::bitset<256>;

class BytesBehind {
 public:
  // `alike`: the node that stands for each (place_classes.h); what follows any of those that it stands for, follows it.
  BytesBehind(const Grammar& grammar, const std::vector<uint32_t>& alike);
  // Behind the rule of a node that stands for others. More bytes than can follow may be among them, none is missing.
  const ByteSet& of(uint32_t node) const { return sets_[numbers_[node]]; }

 private:
  std::vector<ByteSet> sets_;
  std::vector<uint32_t> numbers_;  // by node
};

}  // namespace transom::constraint
