// SPDX-License-Identifier: Apache-2.0
// The classes of a checkpoint's head, and how the labels of files become them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inputs/data/labels.h"
#include "transom/model.h"
#include "transom/training_arguments.h"

namespace transom {

struct Architecture;

// The class of the model's family, or of one that is to be made, for the task of a pipeline; null: it has none.
const Architecture* class_for(const ScriptArguments& script, std::string_view pipeline);

struct ModelClasses {
  std::vector<std::string> names;  // LABEL_0 ... where the configuration of a head names none
  bool has_head = false;           // the checkpoint classifies
  // By its problem_type, which a configuration may leave open.
  bool several_at_once = false, one_at_once = false;
  // Whether the head gives one number, as a regression has it.
  bool gives_one_number() const { return has_head && names.size() == 1; }
};
ModelClasses classes_of_model(const std::string& directory);

// Which class of the model each label of the files is, by name (the case of letters aside), else by number. Labels may
// be fewer than classes. Other names: in training they become the names of the model's classes, in alphabetical order,
// with a warning where the head has names of its own; in evaluation they are refused, since a score on a made-up order
// means nothing. `source` names the file.
void match_to_model(Labels& labels, const TrainArguments& arguments, bool training, const std::string& source,
                    LoadOptions& options);
// Says so where the rows to train on have one class.
void warn_of_one_class(const std::vector<std::string>& classes);

}  // namespace transom
