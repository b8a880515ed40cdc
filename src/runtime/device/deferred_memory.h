// SPDX-License-Identifier: Apache-2.0
// Host memory that is imported before it is written; see include/transom/deferred_memory.h.
#pragma once

#include "transom/deferred_memory.h"

namespace transom {

// Safe from all threads.
class DeferredMemory {
 public:
  // Which of its buffers.
  enum Part { kCodes, kScales, kMinima };

  virtual ~DeferredMemory() = default;
  // Writes all that is not written yet, and returns when it is there.
  virtual void finish() = 0;
  // For the device's kernels; they live as long as this.
  virtual const transom_deferred& source() const = 0;
  virtual const transom_deferred_parts& parts(Part part) const = 0;
};

}  // namespace transom
