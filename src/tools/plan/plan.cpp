// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "tools/plan/machines/published_figures.h"

namespace transom {

Plan plan(const Job& job, const ModelShape& shape, const DeviceModel& device, const PublishedFigures* figures) {
  Plan result = is_training(job.task)         ? plan_training(job, shape, device)
                : job.task == JobTask::kInfer ? plan_inference(job, shape, device)
                                              : plan_generation(job, shape, device);
  result.device = device.title;
  result.model = shape.name;
  if (result.job.parameters == 0) result.job.parameters = shape.parameters;
  if (figures) correct(result, device, *figures);
  add_economy(result, device);
  if (figures) result.past_error = past_error_of(result, device, *figures);
  return result;
}

Plan plan(const Job& job) {
  const DeviceModel device = find_device_model(job.hardware);
  const ModelShape shape = model_shape_of(job.config, job.model, job.parameters);
  return plan(job, shape, device, &shipped_figures());
}

}  // namespace transom
