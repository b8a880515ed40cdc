// SPDX-License-Identifier: Apache-2.0
// Entities in sequences of tags, and how many were found: seqeval's default mode (that of the conlleval script), which
// takes IOB1, IOB2, IOE and IOBES alike.
#pragma once

#include <string>
#include <vector>

#include "work/train/files/trainer_state.h"

namespace transom {

struct Entity {
  std::string type;
  size_t begin = 0, end = 0;  // tags, the end in it
  auto operator<=>(const Entity&) const = default;
};
std::vector<Entity> entities(const std::vector<std::string>& tags);

using TagRows = std::vector<std::vector<std::string>>;
// precision, recall and f1 of entities, accuracy of tags; with `by_type`, before them the first three and the number of
// each type ("LOC_f1").
LogRecord entity_metrics(const TagRows& labels, const TagRows& predictions, bool by_type);

}  // namespace transom
