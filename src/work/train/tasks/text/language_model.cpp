// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/text/language_model.h"

#include "base/error.h"
#include "files/config/config.h"
#include "models/next_token.h"
#include "models/records.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {

void load_language_model(const TrainArguments& arguments, const char* losses, TaskSetup& setup) {
  setup.model = load_model(arguments, arguments.script.model_name_or_path, load_options(arguments, "text-generation"));
  // A graph without a record is known by what it gives.
  if (find_architecture(*setup.model) && !predicts_next_token(*setup.model))
    fail(ErrorKind::kUsage, "--task {}: expected a model that predicts the next token, found {}",
         arguments.script.task.value_or(""), setup.model->architecture());
  const Config& config = setup.model->config();
  if (config.get_bool("output_router_logits", false) && config.get_float("router_aux_loss_coef", 0) != 0)
    fail(ErrorKind::kUnsupported,
         "config.json: output_router_logits: balance between experts is no term of {}; set it to false", losses);
}

}  // namespace transom
