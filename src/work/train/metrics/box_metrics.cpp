// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/box_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace transom {
namespace {

constexpr size_t kOverlaps = 10, kRecalls = 101, kMostFound = 100;
using Box = std::array<double, 4>;

struct AreaRange {
  double least, most;
  bool holds(double area) const { return area >= least && area <= most; }
};
constexpr AreaRange kAll{0, 1e10}, kSmall{0, 32.0 * 32}, kMedium{32.0 * 32, 96.0 * 96}, kLarge{96.0 * 96, 1e10};

double area_of(const Box& box) { return box[2] * box[3]; }

double overlap_of(const Box& a, const Box& b) {
  const double width = std::min(a[0] + a[2], b[0] + b[2]) - std::max(a[0], b[0]);
  const double height = std::min(a[1] + a[3], b[1] + b[3]) - std::max(a[1], b[1]);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height;
  return both / (area_of(a) + area_of(b) - both);
}

// One picture's objects of one class, and how much each pair overlaps.
struct ClassInPicture {
  std::vector<double> labelled, found;  // areas; what is found by falling score, at most kMostFound
  std::vector<double> scores;
  std::vector<std::vector<double>> overlaps;  // [found][labelled]
};

ClassInPicture class_in(const ComparedPicture& picture, int64_t number) {
  ClassInPicture result;
  const PictureObjects &labelled = picture.labelled, &found = picture.found;
  std::vector<size_t> wanted, order;
  for (size_t i = 0; i < labelled.classes.size(); ++i)
    if (labelled.classes[i] == number) wanted.push_back(i);
  for (size_t i = 0; i < found.classes.size(); ++i)
    if (found.classes[i] == number) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return found.scores[a] > found.scores[b]; });
  if (order.size() > kMostFound) order.resize(kMostFound);
  for (const size_t i : wanted) result.labelled.push_back(labelled.areas[i]);
  for (const size_t i : order) {
    result.found.push_back(found.areas[i]);
    result.scores.push_back(found.scores[i]);
    std::vector<double>& row = result.overlaps.emplace_back();
    for (const size_t k : wanted) row.push_back(picture.overlaps[i * labelled.classes.size() + k]);
  }
  return result;
}

PictureObjects objects_of_boxes(const PictureBoxes& boxes) {
  PictureObjects objects{boxes.classes, {}, boxes.scores};
  for (const Box& box : boxes.boxes) objects.areas.push_back(area_of(box));
  return objects;
}

// What was found, over all pictures: its score, and whether it is right; what counts as neither is left out.
struct Judged {
  std::vector<double> scores;
  std::vector<char> right;
  double labelled = 0;  // objects that should be found
};

// Each found object takes the labelled one that it overlaps most and that nobody took. Objects outside of the range
// count neither way.
void judge(const ClassInPicture& picture, AreaRange range, double least, size_t most, Judged& judged) {
  std::vector<size_t> order(picture.labelled.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto ignored = [&](size_t i) { return !range.holds(picture.labelled[i]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ignored(a) < ignored(b); });
  for (const size_t i : order) judged.labelled += ignored(i) ? 0 : 1;
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<bool> taken(picture.labelled.size(), false);
  for (size_t f = 0; f < std::min(most, picture.found.size()); ++f) {
    double best = std::min(least, 1 - 1e-10);
    size_t match = kNone;
    for (const size_t i : order) {
      if (taken[i]) continue;
      if (match != kNone && !ignored(match) && ignored(i)) break;
      if (picture.overlaps[f][i] < best) continue;
      best = picture.overlaps[f][i];
      match = i;
    }
    if (match != kNone) taken[match] = true;
    if (match == kNone ? !range.holds(picture.found[f]) : ignored(match)) continue;
    judged.scores.push_back(picture.scores[f]);
    judged.right.push_back(match != kNone);
  }
}

struct Curve {
  double precision = -1, recall = -1;  // the mean precision at 101 recalls, and the last recall
};

Curve curve_of(const Judged& judged) {
  if (judged.labelled == 0) return {};
  std::vector<size_t> order(judged.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return judged.scores[a] > judged.scores[b]; });
  std::vector<double> recalls, precisions;
  double right = 0, wrong = 0;
  for (const size_t i : order) {
    (judged.right[i] ? right : wrong) += 1;
    recalls.push_back(right / judged.labelled);
    precisions.push_back(right / (right + wrong + std::numeric_limits<double>::epsilon()));
  }
  for (size_t i = precisions.size(); i-- > 1;) precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  double sum = 0;
  for (size_t r = 0; r < kRecalls; ++r) {
    // As NumPy's linspace rounds them.
    const double wanted = r + 1 == kRecalls ? 1 : static_cast<double>(r) * 0.01;
    const auto at = std::lower_bound(recalls.begin(), recalls.end(), wanted);
    if (at != recalls.end()) sum += precisions[static_cast<size_t>(at - recalls.begin())];
  }
  return {sum / kRecalls, recalls.empty() ? 0 : recalls.back()};
}

// The mean of what is not -1.
class KnownMean {
 public:
  void add(double value) {
    if (value < 0) return;
    sum_ += value;
    count_ += 1;
  }
  double value() const { return count_ > 0 ? sum_ / count_ : -1; }

 private:
  double sum_ = 0, count_ = 0;
};

}  // namespace

Metrics box_metrics(std::span<const PictureBoxes> labelled, std::span<const PictureBoxes> found,
                    const std::vector<std::string>& classes) {
  std::vector<ComparedPicture> pictures;
  for (size_t i = 0; i < labelled.size(); ++i) {
    ComparedPicture& picture = pictures.emplace_back();
    picture = {objects_of_boxes(labelled[i]), objects_of_boxes(found[i]), {}};
    for (const Box& each : found[i].boxes)
      for (const Box& box : labelled[i].boxes) picture.overlaps.push_back(overlap_of(each, box));
  }
  return object_metrics(pictures, classes);
}

Metrics object_metrics(std::span<const ComparedPicture> pictures, const std::vector<std::string>& classes) {
  std::vector<std::vector<ClassInPicture>> all(classes.size());
  for (size_t c = 0; c < classes.size(); ++c)
    for (const ComparedPicture& picture : pictures) all[c].push_back(class_in(picture, static_cast<int64_t>(c)));
  const auto curve = [&](size_t c, AreaRange range, size_t overlap, size_t most) {
    Judged judged;
    for (const ClassInPicture& picture : all[c])
      judge(picture, range, 0.5 + static_cast<double>(overlap) * ((0.95 - 0.5) / (kOverlaps - 1)), most, judged);
    return curve_of(judged);
  };
  const auto precision = [&](AreaRange range, size_t first, size_t last) {
    KnownMean mean;
    for (size_t c = 0; c < classes.size(); ++c)
      for (size_t t = first; t <= last; ++t) mean.add(curve(c, range, t, kMostFound).precision);
    return mean.value();
  };
  const auto recall = [&](AreaRange range, size_t most) {
    KnownMean mean;
    for (size_t c = 0; c < classes.size(); ++c)
      for (size_t t = 0; t < kOverlaps; ++t) mean.add(curve(c, range, t, most).recall);
    return mean.value();
  };
  Metrics metrics{{"map", precision(kAll, 0, kOverlaps - 1)},
                  {"map_50", precision(kAll, 0, 0)},
                  {"map_75", precision(kAll, 5, 5)},
                  {"map_small", precision(kSmall, 0, kOverlaps - 1)},
                  {"map_medium", precision(kMedium, 0, kOverlaps - 1)},
                  {"map_large", precision(kLarge, 0, kOverlaps - 1)},
                  {"mar_1", recall(kAll, 1)},
                  {"mar_10", recall(kAll, 10)},
                  {"mar_100", recall(kAll, kMostFound)},
                  {"mar_small", recall(kSmall, kMostFound)},
                  {"mar_medium", recall(kMedium, kMostFound)},
                  {"mar_large", recall(kLarge, kMostFound)}};
  for (size_t c = 0; c < classes.size(); ++c) {
    KnownMean precisions, recalls;
    for (size_t t = 0; t < kOverlaps; ++t) {
      const Curve each = curve(c, kAll, t, kMostFound);
      precisions.add(each.precision), recalls.add(each.recall);
    }
    metrics.emplace_back("map_" + classes[c], precisions.value());
    metrics.emplace_back("mar_100_" + classes[c], recalls.value());
  }
  return metrics;
}

}  // namespace transom
