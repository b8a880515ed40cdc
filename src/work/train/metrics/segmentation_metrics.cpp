// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/segmentation_metrics.h"

#include "base/error.h"

namespace transom {
namespace {

// Shares of classes, and their mean; those of nothing are left out.
struct ClassShares {
  void add(const std::string& name, double part, double whole) {
    if (whole <= 0) return;
    each.emplace_back(name, part / whole);
    sum += part / whole;
  }
  double mean() const { return each.empty() ? 0 : sum / static_cast<double>(each.size()); }
  Metrics each;
  double sum = 0;
};

}  // namespace

Metrics segmentation_metrics(std::span<const double> counts, const std::vector<std::string>& classes) {
  const size_t C = classes.size();
  if (counts.size() != C * C) fail(ErrorKind::kInternal, "{} counts are not those of {} classes", counts.size(), C);
  ClassShares overlap, accuracy;
  double right = 0, all = 0;
  for (size_t c = 0; c < C; ++c) {
    double labelled = 0, found = 0;
    for (size_t other = 0; other < C; ++other) labelled += counts[c * C + other], found += counts[other * C + c];
    const double both = counts[c * C + c];
    overlap.add("iou_" + classes[c], both, labelled + found - both);
    accuracy.add("accuracy_" + classes[c], both, labelled);
    right += both, all += labelled;
  }
  Metrics metrics{{"mean_iou", overlap.mean()},
                  {"mean_accuracy", accuracy.mean()},
                  {"overall_accuracy", all > 0 ? right / all : 0}};
  metrics.insert(metrics.end(), accuracy.each.begin(), accuracy.each.end());
  metrics.insert(metrics.end(), overlap.each.begin(), overlap.each.end());
  return metrics;
}

}  // namespace transom
