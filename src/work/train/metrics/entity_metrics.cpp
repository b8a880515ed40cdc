// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/entity_metrics.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "work/train/metrics/metrics.h"

namespace transom {
namespace {

struct Tag {
  char place = 'O';  // B, I, E, S or O
  std::string type;
};

Tag parse(const std::string& text) {
  if (text.empty()) return {'O', "_"};
  std::string type = text.substr(1);
  if (const size_t dash = type.find('-'); dash != type.npos) type = type.substr(dash + 1);
  return {text[0], type.empty() ? "_" : type};
}

bool is_one_of(char place, std::string_view places) { return places.find(place) != places.npos; }

bool ends_between(const Tag& before, const Tag& after) {
  if (is_one_of(before.place, "ES")) return true;
  if (is_one_of(before.place, "BI") && is_one_of(after.place, "BSO")) return true;
  return !is_one_of(before.place, "O.") && before.type != after.type;
}

bool begins_between(const Tag& before, const Tag& after) {
  if (is_one_of(after.place, "BS")) return true;
  if (is_one_of(before.place, "ESO") && is_one_of(after.place, "EI")) return true;
  return !is_one_of(after.place, "O.") && before.type != after.type;
}

struct EntityCounts {
  int64_t correct = 0, predicted = 0, actual = 0;
};

}  // namespace

std::vector<Entity> entities(const std::vector<std::string>& tags) {
  std::vector<Entity> result;
  Tag before;
  size_t begin = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    Tag tag = i < tags.size() ? parse(tags[i]) : Tag{'O', "_"};
    if (ends_between(before, tag)) result.push_back({before.type, begin, i - 1});
    if (begins_between(before, tag)) begin = i;
    before = std::move(tag);
  }
  return result;
}

LogRecord entity_metrics(const TagRows& labels, const TagRows& predictions, bool by_type) {
  require(labels.size() == predictions.size(), "entities: expected the tags of {} rows, found {}", labels.size(),
          predictions.size());
  std::map<std::string, EntityCounts> types;
  int64_t tags = 0, equal = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    require(labels[row].size() == predictions[row].size(), "entities: row {}: expected {} tags, found {}", row + 1,
            labels[row].size(), predictions[row].size());
    for (size_t i = 0; i < labels[row].size(); ++i) ++tags, equal += labels[row][i] == predictions[row][i];
    const auto actual = entities(labels[row]), predicted = entities(predictions[row]);
    for (const Entity& entity : actual) {
      ++types[entity.type].actual;
      types[entity.type].correct += std::find(predicted.begin(), predicted.end(), entity) != predicted.end();
    }
    for (const Entity& entity : predicted) ++types[entity.type].predicted;
  }
  LogRecord record;
  EntityCounts all;
  for (const auto& [type, each] : types) {
    all.correct += each.correct, all.predicted += each.predicted, all.actual += each.actual;
    if (!by_type) continue;
    const PrecisionRecall scores = precision_recall_f1(each.correct, each.predicted, each.actual);
    record.emplace_back(type + "_precision", scores.precision);
    record.emplace_back(type + "_recall", scores.recall);
    record.emplace_back(type + "_f1", scores.f1);
    record.emplace_back(type + "_number", each.actual);
  }
  const PrecisionRecall scores = precision_recall_f1(all.correct, all.predicted, all.actual);
  const std::string prefix = by_type ? "overall_" : "";
  record.emplace_back(prefix + "precision", scores.precision);
  record.emplace_back(prefix + "recall", scores.recall);
  record.emplace_back(prefix + "f1", scores.f1);
  record.emplace_back(prefix + "accuracy", tags == 0 ? 0.0 : static_cast<double>(equal) / static_cast<double>(tags));
  return record;
}

}  // namespace transom
