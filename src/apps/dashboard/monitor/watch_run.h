// SPDX-License-Identifier: Apache-2.0
// The Trainer's side of a dashboard: fills a RunMonitor and obeys a RunControl.
#pragma once

#include <memory>

#include "apps/dashboard/monitor/run_control.h"
#include "apps/dashboard/monitor/run_monitor.h"
#include "transom/trainer.h"

namespace transom::dashboard {

// Updates whose kernels one measurement takes.
inline constexpr int64_t kProfiledSteps = 5;

std::shared_ptr<TrainerCallback> watch_run(std::shared_ptr<RunMonitor> monitor, std::shared_ptr<RunControl> control);
// For FineTuneOptions::on_step: the loss of each update, for which the host waits.
void add_step(RunMonitor& monitor, const StepReport& report);

}  // namespace transom::dashboard
