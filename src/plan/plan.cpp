// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

Plan plan(const Job& job, const ModelShape& shape, const DeviceModel& device) {
  Plan result = is_training(job.task)         ? plan_training(job, shape, device)
                : job.task == JobTask::kInfer ? plan_inference(job, shape, device)
                                              : plan_generation(job, shape, device);
  result.device = device.title;
  result.model = shape.name;
  if (result.job.parameters == 0) result.job.parameters = shape.parameters;
  add_economy(result, device);
  return result;
}

Plan plan(const Job& job) {
  const DeviceModel device = find_device_model(job.hardware);
  const ModelShape shape = model_shape_of(job.config, job.model, job.parameters);
  Plan result = plan(job, shape, device);
  result.past_error = past_error_of(result, device);
  return result;
}

}  // namespace transom
