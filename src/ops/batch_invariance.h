// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

// While it lives, products that its thread calls (linear, dot_general) carry the attribute batch_invariant: a device
// that knows it gives each row of x the bits that it has in a product of any other number of rows (He et al.,
// "Defeating nondeterminism in LLM inference", 2025). Others ignore it.
class BatchInvariance {
 public:
  BatchInvariance();
  ~BatchInvariance();
  BatchInvariance(const BatchInvariance&) = delete;
  BatchInvariance& operator=(const BatchInvariance&) = delete;
  static bool active();

 private:
  bool before_;
};

}  // namespace transom
