// SPDX-License-Identifier: Apache-2.0
// Integers have no NaN: a layer that rounds its inputs by a scale of the checkpoint gives some number for one. So that
// none is lost in silence, weights of such models are finite or refused, and inputs that are not show in all outputs of
// their row.
#pragma once

#include <string>

#include "files/checkpoint/tensor_view.h"
#include "transom/model.h"

namespace transom {

// Whether a layer rounds its inputs by a scale of the checkpoint.
bool reads_integers(const Model& model);

// Of such a model: its outputs, NaN in the rows (along the first axis) in which an input of the model holds an infinity
// or a NaN; in all where an output has no such rows. Labels and masks are not looked at. Else `outputs` as they are.
NamedTensors with_unfinite_rows(const Model& model, const NamedTensors& inputs, NamedTensors outputs);

// Throws, naming `where`, unless all numbers are finite; integers always are. Mapped pages of large tensors are let go.
void expect_finite(const TensorView& view, const std::string& where);

}  // namespace transom
