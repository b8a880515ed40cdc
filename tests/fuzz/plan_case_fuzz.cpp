// SPDX-License-Identifier: Apache-2.0
// Any bytes as case.json: what is read is planned on every kind of device.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "tools/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  static const std::vector<DeviceModel> devices = all_device_models();
  try {
    Job job = parse_job({reinterpret_cast<const char*>(data), size}, "case.json");
    if (job.devices > 4096) return 0;
    const ModelShape shape = model_shape_of(job.config, job.model, job.parameters);
    for (const DeviceModel& device : devices) try {
        plan_json(plan(job, shape, device));
      } catch (const Error&) {
      }
  } catch (const Error&) {
  }
  return 0;
}
