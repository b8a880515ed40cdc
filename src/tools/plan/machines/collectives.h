// SPDX-License-Identifier: Apache-2.0
// Times of collectives by the alpha-beta model (Thakur et al., 2005) over the links of a device. Groups lie inside a
// server as far as they can; larger ones are hierarchical, as HCCL, RCCL and NCCL run them.
#pragma once

#include "tools/plan/machines/device_model.h"

namespace transom {

// Ranks that exchange: so many, so many of them in one server.
struct RankGroup {
  double ranks = 1, ranks_a_host = 1;
};
// A group of `ranks` whose neighbours are `stride` devices apart.
RankGroup group_of(const DeviceModel& device, double ranks, double stride);

double all_reduce_seconds(const DeviceModel& device, const RankGroup& group, double bytes);
// Of reduce-scatter, too. `bytes`: the whole that each rank has afterwards.
double all_gather_seconds(const DeviceModel& device, const RankGroup& group, double bytes);
// `bytes`: what each rank sends.
double all_to_all_seconds(const DeviceModel& device, const RankGroup& group, double bytes);
double send_seconds(const DeviceModel& device, bool outside, double bytes);

}  // namespace transom
