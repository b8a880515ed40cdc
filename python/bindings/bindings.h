// SPDX-License-Identifier: Apache-2.0
// The parts of the extension module `transom._transom`. Each binds one subject of the library; the classes of the
// package (python/transom) stand on them and have Transformers' names. Nothing here is for users.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "transom/model.h"

namespace transom::python {

namespace nb = nanobind;

// A model that Python and trainers hold together.
using SharedModel = std::shared_ptr<Model>;

void bind_errors(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_tokenizers(nb::module_& module);
void bind_models(nb::module_& module);
void bind_generation(nb::module_& module);
void bind_pipelines(nb::module_& module);
void bind_processors(nb::module_& module);
void bind_training(nb::module_& module);

// Tensors by name, from a dict of tensors. Numbers narrower than i64 are widened, as models take i64.
NamedTensors named_tensors(const nb::dict& tensors);
nb::dict dict_of(const NamedTensors& tensors);

}  // namespace transom::python
