// SPDX-License-Identifier: Apache-2.0
// How well each class is found, as a table and as a picture of which is taken for which.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "work/train/metrics/entity_metrics.h"

namespace transom {

// Counts of (label, prediction).
class ConfusionTable {
 public:
  explicit ConfusionTable(std::vector<std::string> names);
  // Labels that are no class, as those of padding, count nothing.
  void add(int64_t label, int64_t prediction);
  int64_t total() const;

  // Precision, recall, f1 and number of each class that is there, then accuracy and the means, as scikit-learn's
  // classification_report has them.
  std::string text() const;
  // One self-contained SVG, a row a label and a column a prediction, for light and dark pages. Classes beyond the most
  // frequent 40 are left out, which its heading says.
  std::string picture() const;

 private:
  int64_t count(size_t label, size_t prediction) const;
  std::vector<std::string> names_;
  std::map<std::pair<size_t, size_t>, int64_t> counts_;  // of the pairs that there are: classes may be many
  std::vector<int64_t> actual_, predicted_;              // of each class
};

// The table of the kinds of entities.
std::string entity_report(const TagRows& labels, const TagRows& predictions);

}  // namespace transom
