// SPDX-License-Identifier: Apache-2.0
// Which rows of its tables a forward pass uses, for gradients and updates of these rows alone (torch.nn.EmbeddingBag
// with sparse=True).
#pragma once

#include <memory>
#include <vector>

#include "transom/model.h"

namespace transom {

// rows [N, D] = table[indices [N]]
struct SparseLookup {
  std::shared_ptr<Parameter> table;
  Tensor indices, rows;
};

// While it lives, what this thread's models look up in their sparse tables is noted.
class CollectLookups {
 public:
  explicit CollectLookups(bool wanted = true);
  ~CollectLookups();
  CollectLookups(const CollectLookups&) = delete;
  CollectLookups& operator=(const CollectLookups&) = delete;
  const std::vector<SparseLookup>& lookups() const { return lookups_; }

 private:
  friend void note_lookup(SparseLookup lookup);
  std::vector<SparseLookup> lookups_;
  CollectLookups* before_;
};

// For models with sparse tables: forgotten where nobody collects.
void note_lookup(SparseLookup lookup);
// Whether this thread's models are to look up rows one table at a time, so that they can be noted.
bool collects_lookups();

}  // namespace transom
