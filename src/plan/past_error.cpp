// SPDX-License-Identifier: Apache-2.0
// How wrong predictions of this kind have been: share/transom/plan/past_errors.json holds, for each published figure,
// predicted / published by a fit that had not seen its source (bench/plan_accuracy writes it).
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "plan/plan.h"
#include "plan/plan_data.h"

namespace transom {
namespace {

struct PastRow {
  std::string id, task, family, hardware, model;
  double parameters = 0, devices = 1, batch = 1, ratio = 1;
};

double number(const Json& row, const char* name, double fallback) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? found->get<double>() : fallback;
}
std::string word(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

const std::vector<PastRow>& past_rows() {
  static std::once_flag once;
  static std::vector<PastRow> rows;
  std::call_once(once, [] {
    const Json json = read_json(plan_data("plan/past_errors.json"));
    const auto list = json.find("rows");
    if (list == json.end() || !list->is_array()) return;
    for (const Json& row : *list)
      if (row.is_object() && number(row, "ratio", 0) > 0)
        rows.push_back({word(row, "id"), word(row, "task"), word(row, "family"), word(row, "hardware"),
                        word(row, "model"), number(row, "parameters", 0), number(row, "devices", 1),
                        number(row, "batch", 0), number(row, "ratio", 1)});
  });
  return rows;
}

double distance(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1; }

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace

PastError past_error_of(const Plan& plan, const DeviceModel& device) {
  const Job& job = plan.job;
  const auto same_task = [&](const PastRow& row) {
    return row.task == name_of(job.task) ||
           (is_training(job.task) && (row.task == "pretrain" || row.task == "finetune"));
  };
  // The narrowest kind that has five rows: the device, its family, the task anywhere.
  std::vector<const PastRow*> alike;
  std::string kind;
  constexpr size_t kEnough = 5;
  for (int width = 0; width < 4 && alike.size() < kEnough; ++width) {
    alike.clear();
    for (const PastRow& row : past_rows()) {
      const bool fits = width == 0   ? same_task(row) && row.hardware == device.name
                        : width == 1 ? same_task(row) && row.family == device.family
                        : width == 2 ? same_task(row)
                                     : true;
      if (fits) alike.push_back(&row);
    }
    const char* kinds[] = {" on this device", " on this family", " on any device", "all rows"};
    kind = width < 3 ? std::string(name_of(job.task)) + kinds[width] : kinds[width];
  }
  PastError result;
  if (alike.empty()) return result;
  std::vector<double> errors;
  const PastRow* nearest = nullptr;
  double least = 0;
  for (const PastRow* row : alike) {
    errors.push_back(std::abs(row->ratio - 1));
    const double far = (row->model == plan.model ? 0 : 1 + distance(row->parameters, job.parameters)) +
                       (row->hardware == device.name ? 0 : 1) + 0.3 * distance(row->devices, job.devices) +
                       0.2 * distance(row->batch, plan.batch);
    if (!nearest || far < least) nearest = row, least = far;
  }
  result.rows = static_cast<int>(errors.size());
  result.median_percent = quantile(errors, 0.5) * 100;
  result.within_percent = quantile(errors, 0.667) * 100;
  result.kind = kind;
  result.nearest = nearest->id, result.nearest_ratio = nearest->ratio;
  return result;
}

}  // namespace transom
