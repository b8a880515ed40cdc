// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/plan/machines/published_figures.h"

namespace transom {
namespace {

constexpr size_t kEnough = 5;
constexpr double kTwoThirds = 0.667;
constexpr double kKept = 0.7;  // of past errors: a little more, since the correction was chosen with them in view
constexpr double kLeastPercent = 12;  // one configuration moves by so much between releases of its software
// What a past error says of this plan: all where task, family and device are the same, else these parts of it; and less
// where it was predicted with another deviation, by the width of a normal curve over the logarithm of their ratio.
constexpr double kOtherTaskWeight = 0.5, kOtherFamily = 0.35, kOtherDevice = 0.6, kDeviationWidth = 0.35;

double distance(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1; }

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// What two thirds of weighted errors stay within. This plan's own error, of which nothing is known, counts as one that
// is larger than all others (Tibshirani et al., 2019, conformal prediction under covariate shift): few and distant
// figures promise little.
// Where they do not reach so far, the predicted deviation is the least.
double two_thirds_within(std::vector<std::pair<double, double>> errors, double deviation) {  // with weights
  std::sort(errors.begin(), errors.end());
  double total = 1, sum = 0;
  for (const auto& [error, weight] : errors) total += weight;
  for (const auto& [error, weight] : errors)
    if ((sum += weight) >= kKept * total) return error;
  return std::max(errors.back().first, std::expm1(deviation));
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
  std::vector<double> errors;
  const PublishedFigure* nearest = nullptr;
  double least = 0;
  for (const PublishedFigure* row : alike) {
    errors.push_back(std::abs(row->left_out_ratio - 1));
    const double far = (row->model == plan.job.model ? 0 : 1 + distance(row->parameters, job.parameters)) +
                       (row->hardware == device.name ? 0 : 1) + 0.3 * distance(row->devices, job.devices) +
                       0.2 * distance(row->batch, plan.batch);
    if (!nearest || far < least) nearest = row, least = far;
  }
  result.rows = static_cast<int>(errors.size());
  result.median_percent = quantile(errors, 0.5) * 100;
  std::vector<std::pair<double, double>> weighted;
  for (const PublishedFigure& row : figures.figures()) {
    if (!(row.promised > 0) || !(result.deviation > 0)) continue;
    const double away = std::log(row.promised / result.deviation) / kDeviationWidth;
    weighted.emplace_back(std::abs(row.left_out_ratio - 1), std::exp(-away * away / 2) *
                                                                (same_task(row) ? 1 : kOtherTaskWeight) *
                                                                (row.family == device.family ? 1 : kOtherFamily) *
                                                                (row.hardware == device.name ? 1 : kOtherDevice));
  }
  result.within_percent =
      (weighted.size() >= kEnough ? two_thirds_within(weighted, result.deviation) : quantile(errors, kTwoThirds)) * 100;
  result.within_percent = std::max(result.within_percent, kLeastPercent);
  result.kind = kind;
  result.nearest = nearest->id, result.nearest_ratio = nearest->left_out_ratio;
  return result;
}

}  // namespace transom
