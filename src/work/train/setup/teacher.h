// SPDX-License-Identifier: Apache-2.0
// --teacher_model: the model that another one learns from.
#pragma once

#include <functional>
#include <memory>

#include "transom/hub.h"
#include "transom/model.h"
#include "transom/training_arguments.h"

namespace transom {

struct Teacher {
  std::shared_ptr<const Model> model;  // null where the arguments name none
  std::function<NamedTensors(const NamedTensors&)> inputs_of;
};

// Loads the teacher, compressed or not, on the device of the run. It sees the inputs of the student: a tokenizer with
// other tokens, or an image processor that gives other numbers, is refused, and so are weights that its checkpoint
// lacks. The arguments name the student's directory; `hub` as for fetch_models.
Teacher load_teacher(const TrainArguments& arguments, HubOptions hub);

}  // namespace transom
