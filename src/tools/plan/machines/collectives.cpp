// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/collectives.h"

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

// A device without links of its own goes through its host.
constexpr double kHostLink = 12e9;  // bytes a second: PCIe 3 x16 less overhead

// Bytes a second out of one of `ranks` devices of a server.
double inside_rate(const DeviceModel& device, double ranks) {
  const Interconnect& links = device.inside;
  if (links.topology == "none" || links.bandwidth <= 0)
    return device.outside.bandwidth > 0 && device.devices_per_host > 1 ? device.outside.bandwidth * device.fitted.link
                                                                       : kHostLink;
  const double rate =
      links.topology == "mesh" ? std::min(links.bandwidth, links.pair_bandwidth * (ranks - 1)) : links.bandwidth;
  return rate * device.fitted.link;
}

double outside_rate(const DeviceModel& device) {
  return device.outside.bandwidth > 0 ? device.outside.bandwidth * device.fitted.link : kHostLink / 8;
}

// One phase (reduce-scatter or all-gather) of a direct or ring exchange.
double phase(double ranks, double bytes, double rate, double latency) {
  return ranks <= 1 ? 0 : std::log2(ranks) * latency + (ranks - 1) / ranks * bytes / rate;
}

double two_levels(const DeviceModel& device, const RankGroup& group, double bytes) {
  const double inner = std::max(1.0, group.ranks_a_host), outer = group.ranks / inner;
  double total = phase(inner, bytes, inside_rate(device, inner), device.inside.latency);
  if (outer > 1) total += phase(outer, bytes / inner, outside_rate(device), device.outside.latency);
  return total;
}

}  // namespace

RankGroup group_of(const DeviceModel& device, double ranks, double stride) {
  const double here = std::max(1.0, std::floor(device.devices_per_host / std::max(1.0, stride)));
  return {ranks, std::min(ranks, here)};
}

double all_reduce_seconds(const DeviceModel& device, const RankGroup& group, double bytes) {
  return group.ranks <= 1 ? 0 : device.fitted.collective + 2 * two_levels(device, group, bytes);
}

double all_gather_seconds(const DeviceModel& device, const RankGroup& group, double bytes) {
  return group.ranks <= 1 ? 0 : device.fitted.collective + two_levels(device, group, bytes);
}

double all_to_all_seconds(const DeviceModel& device, const RankGroup& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const double inner = std::max(1.0, group.ranks_a_host), outer = group.ranks / inner;
  const double within = inner > 1 ? bytes * (inner - 1) / group.ranks / inside_rate(device, inner) : 0;
  const double beyond = outer > 1 ? bytes * (group.ranks - inner) / group.ranks / outside_rate(device) : 0;
  return device.fitted.collective + std::max(within, beyond);
}

double send_seconds(const DeviceModel& device, bool outside, double bytes) {
  const double rate = outside ? outside_rate(device) : inside_rate(device, 2);
  return (outside ? device.outside.latency : device.inside.latency) + bytes / rate;
}

}  // namespace transom
