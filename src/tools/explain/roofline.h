// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured with the same device and threads: products of large matrices, and moving
// memory (the triad of STREAM, McCalpin, 1995).
#pragma once

#include <string>
#include <vector>

#include "transom/dtype.h"

namespace transom {

struct Limits {
  struct Products {
    DType dtype;
    double rate;  // floating-point operations a second
  };
  std::vector<Products> products;  // f32 first; the other types in which products are faster here
  double bandwidth = 0;            // bytes a second

  double products_of(DType dtype) const;  // the rate in this type; that of f32 if it was not measured
  // A rate that was reached: it becomes that of products_of(dtype) where it is more.
  void raise(DType dtype, double rate);
  // The seconds that so many operations and bytes take at least.
  double seconds_of(double operations, double bytes, DType dtype) const;
};

// Takes a second or two.
Limits measure_limits();

std::string text_of(const Limits& limits);  // "f32 products 118.0 GFLOP/s, memory 40.0 GB/s"

}  // namespace transom
