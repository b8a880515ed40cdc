// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/published_figures.h"

namespace transom {
namespace {

constexpr size_t kEnough = 5;
constexpr double kTwoThirds = 0.667;
constexpr double kLeastPercent = 12;  // one configuration moves by so much between releases of its software

double distance(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1; }

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace

PastError past_error_of(const Plan& plan, const DeviceModel& device, const PublishedFigures& figures) {
  const Job& job = plan.job;
  const auto same_task = [&](const PublishedFigure& row) {
    return row.task == name_of(job.task) ||
           (is_training(job.task) && (row.task == "pretrain" || row.task == "finetune"));
  };
  // The narrowest kind that has five rows: the device, its family, the task anywhere.
  std::vector<const PublishedFigure*> alike;
  std::string kind;
  for (int width = 0; width < 4 && alike.size() < kEnough; ++width) {
    alike.clear();
    for (const PublishedFigure& row : figures.figures()) {
      const bool fits = width == 0   ? same_task(row) && row.hardware == device.name
                        : width == 1 ? same_task(row) && row.family == device.family
                        : width == 2 ? same_task(row)
                                     : true;
      if (fits) alike.push_back(&row);
    }
    const char* kinds[] = {" on this device", " on this family", " on any device", "all rows"};
    kind = width < 3 ? std::string(name_of(job.task)) + kinds[width] : kinds[width];
  }
  PastError result = plan.past_error;
  if (alike.empty()) return result;
  std::vector<double> errors, kept;
  const PublishedFigure* nearest = nullptr;
  double least = 0;
  for (const PublishedFigure* row : alike) {
    errors.push_back(std::abs(row->left_out_ratio - 1));
    if (row->promised > 0) kept.push_back(std::abs(std::log(row->left_out_ratio)) / row->promised);
    const double far = (row->model == plan.job.model ? 0 : 1 + distance(row->parameters, job.parameters)) +
                       (row->hardware == device.name ? 0 : 1) + 0.3 * distance(row->devices, job.devices) +
                       0.2 * distance(row->batch, plan.batch);
    if (!nearest || far < least) nearest = row, least = far;
  }
  result.rows = static_cast<int>(errors.size());
  result.median_percent = quantile(errors, 0.5) * 100;
  // What this plan's own deviation foretells, times what such foretelling was worth.
  result.within_percent = result.deviation > 0 && kept.size() >= kEnough
                              ? (std::exp(quantile(kept, kTwoThirds) * result.deviation) - 1) * 100
                              : quantile(errors, kTwoThirds) * 100;
  result.within_percent = std::max(result.within_percent, kLeastPercent);
  result.kind = kind;
  result.nearest = nearest->id, result.nearest_ratio = nearest->left_out_ratio;
  return result;
}

}  // namespace transom
