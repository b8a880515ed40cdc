// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_transom, module) {
  using namespace transom::python;
  // What scripts hold in globals until the end is no fault.
  nanobind::set_leak_warnings(false);
  module.doc() = "The library behind the package transom. Its names are for the package alone.";
  module.attr("version") = TRANSOM_VERSION;
  bind_errors(module);
  bind_tensors(module);
  bind_tokenizers(module);
  bind_models(module);
  bind_generation(module);
  bind_pipelines(module);
  bind_processors(module);
  bind_training(module);
}
