// SPDX-License-Identifier: Apache-2.0
// From work to seconds on one device.
#pragma once

#include "tools/plan/machines/collectives.h"
#include "tools/plan/plan.h"
#include "tools/plan/work.h"

namespace transom {

struct WorkSeconds {
  double matrix = 0, vector = 0;
};

// `share`: what remains of rows and columns for one device of a tensor-parallel group. Forward alone.
WorkSeconds seconds_of(const Work& work, const DeviceModel& device, const JobPrecision& precision, Maturity maturity,
                       bool training, double tensor);

// Times of engines that overlap in part: the p-norm; 1 adds them up.
double joined(double a, double b, double norm);
// Scales `parts` so that they add up to their joined time.
void join(double& a, double& b, double norm);

// Seconds a kernel of LLaMA's layers that an eager framework's host needs to launch them, forward.
inline constexpr double kEagerLayer = 0.85e-3;

}  // namespace transom
