// SPDX-License-Identifier: Apache-2.0
// How far a device may be from the float64 reference. docs/device-plugins.md holds the table that bound_of returns.
#pragma once

#include <optional>
#include <string>

#include "tools/certify/cases.h"

namespace transom::certify {

using Scale = ErrorScale;
using Bound = ErrorBound;

// That of the operation's record; gradients have one of their own.
Bound bound_of(const Operation& operation, DType dtype, bool gradient);

// The worst element of a tensor.
struct Difference {
  double ulp = 0;    // distance in units in the last place of the scale
  double ratio = 0;  // distance by what is allowed: above 1 is wrong; infinite where one side alone is NaN or infinite
  int64_t place = -1;  // of the first element that is wrong, else of the worst
  double expected = 0, found = 0;
};

// `magnitude` and `terms` are the operation on absolute values and on ones, for Scale::kTerms; `floor` is the least
// that Scale::kTensor is measured by.
Difference compare(const Array& expected, const Array& found, const Bound& bound, const Array* magnitude,
                   const Array* terms, double floor = 0);

}  // namespace transom::certify
