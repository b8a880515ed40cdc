// SPDX-License-Identifier: Apache-2.0
#include "nn/sparse_lookups.h"

#include <utility>

#include "ops/computing.h"

namespace transom {

CollectLookups::CollectLookups(bool wanted) : before_(set_computing(&Computing::lookups, wanted ? this : nullptr)) {}
CollectLookups::~CollectLookups() { set_computing(&Computing::lookups, before_); }

void note_lookup(SparseLookup lookup) {
  if (CollectLookups* collector = computing().lookups) collector->lookups_.push_back(std::move(lookup));
}

bool collects_lookups() { return computing().lookups != nullptr; }

}  // namespace transom
