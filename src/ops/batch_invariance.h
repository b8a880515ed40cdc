// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

// While it lives, products and attention that its thread calls (linear, dot_general, attention) carry the attribute
// batch_invariant: a device that knows it gives each row of x, each query, the bits that it has beside any number of
// others (He et al., "Defeating nondeterminism in LLM inference", 2025). Others ignore it.
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
