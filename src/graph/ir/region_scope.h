// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

// While it lives, nodes made on this thread become part of a region: no observer sees them and they save nothing, but
// what is computed from trained values is marked so, because a detach() within the region must act when the region is
// differentiated.
class RegionScope {
 public:
  RegionScope();
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  bool compiler_before_, region_before_;
};

}  // namespace transom
