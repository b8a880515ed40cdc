// SPDX-License-Identifier: Apache-2.0
// Cost, energy, and what failures take at thousands of devices.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tools/plan/plan.h"

namespace transom {
namespace {

// One unexpected interruption in 3.1 hours on 16,384 devices (Llama 3, 2024).
constexpr double kHoursBetweenFailures = 50000;  // of one device
constexpr double kRecoverySeconds = 600;
constexpr double kCheckpointBytes = 14;  // a parameter
constexpr double kCheckpointRate = 2e9;  // bytes a second and host
constexpr double kFacility = 1.25;       // power usage effectiveness

// The latest price that is not younger than the job; of an instance, where one is named.
const DevicePrice* price_of(const Job& job, const DeviceModel& device) {
  const DevicePrice* best = nullptr;
  for (const DevicePrice& price : device.prices) {
    if (!job.instance.empty() && price.instance != job.instance) continue;
    const bool early = job.date.empty() || price.date <= job.date;
    const bool best_early = best && (job.date.empty() || best->date <= job.date);
    if (!best || (early && (!best_early || price.date > best->date)) ||
        (!early && !best_early && price.date < best->date))
      best = &price;
  }
  return best;
}

}  // namespace

void add_economy(Plan& plan, const DeviceModel& device) {
  const Job& job = plan.job;
  const double hosts = job.hosts > 0 ? job.hosts : std::ceil(job.devices / device.devices_per_host);
  // Young, 1974, and Daly, 2006: checkpoints every sqrt(2 C M), each loses half of that and a recovery a failure.
  if (is_training(job.task) && job.devices > device.devices_per_host) {
    const double between = kHoursBetweenFailures * 3600 / job.devices;
    const double checkpoint = plan.memory.weights * plan.layout.tensor * plan.layout.pipeline * kCheckpointBytes / 2 /
                              (kCheckpointRate * hosts);
    const double interval = std::max(1.0, std::sqrt(2 * checkpoint * between));
    const double waste = checkpoint / interval + (interval / 2 + kRecoverySeconds) / between;
    plan.availability = std::clamp(1 - waste, 0.0, 1.0);
  }
  if (job.usd_per_hour > 0) {
    plan.usd_per_hour = job.usd_per_hour * hosts;
    plan.price_source = "as given, a host";
  } else if (const DevicePrice* price = price_of(job, device)) {
    const double units = std::ceil(job.devices / price->devices);
    plan.usd_per_hour = price->usd_per_hour * units;
    plan.price_source = fmt::format("{} {}, {}", price->instance, price->date, price->source);
  }
  if (plan.usd_per_hour > 0 && plan.tokens_per_second > 0)
    plan.usd_per_million_tokens = plan.usd_per_hour / (plan.tokens_per_second * 3600) * 1e6;
  // A device draws its limit while engines are busy; memory alone keeps it at about three quarters.
  const double total = std::max(1e-12, plan.time.total());
  const double busy =
      (plan.time.matrix + 0.75 * (plan.time.vector + plan.time.memory) + 0.4 * plan.time.exposed_communication) / total;
  const double one = device.idle_watts + (device.watts - device.idle_watts) * std::clamp(busy, 0.0, 1.0);
  // A device bears its share of the host that it stands in; the others are somebody else's, as is their price.
  const double share = std::min(hosts, job.devices / device.devices_per_host);
  plan.watts = (one * job.devices + device.host_watts * share) * (device.devices_per_host > 1 ? kFacility : 1);
  if (plan.tokens_per_second > 0) plan.joules_per_token = plan.watts / plan.tokens_per_second;
}

}  // namespace transom
