// SPDX-License-Identifier: Apache-2.0
#include "nn/sparse_lookups.h"

#include <utility>

namespace transom {
namespace {

thread_local CollectLookups* collector = nullptr;

}  // namespace

CollectLookups::CollectLookups(bool wanted) : before_(std::exchange(collector, wanted ? this : nullptr)) {}
CollectLookups::~CollectLookups() { collector = before_; }

void note_lookup(SparseLookup lookup) {
  if (collector) collector->lookups_.push_back(std::move(lookup));
}

bool collects_lookups() { return collector != nullptr; }

}  // namespace transom
