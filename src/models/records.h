// SPDX-License-Identifier: Apache-2.0
// The record of a model that is loaded: what its family and its class state.
#pragma once

#include <cstdint>
#include <optional>

#include "files/family/family.h"
#include "transom/model.h"

namespace transom {

// The class of a model; null: its architecture has no record, as that of an ONNX file may have none.
const Architecture* find_architecture(const Model& model);
// The same, which refuses an architecture without a record by its name.
const Architecture& architecture_of(const Model& model);
const FamilyHead& head_of(const Model& model);
const FamilyInputs& inputs_of(const Model& model);
// The family by the configuration's model_type, or else by what shows it; null: none.
const Family* find_family(const Config& config);

// What the configuration says of an extent; nothing where every one will do, or where none is known.
std::optional<int64_t> extent_of(const Config& config, const InputExtent& extent);
// How many tokens the logits of a head stand for; 0: the configuration does not say.
int64_t vocabulary_of(const Config& config, const FamilyHead& head);
// How many classes a head has that has_named_classes(); 0: the configuration does not say.
int64_t class_count(const Config& config, const FamilyHead& head);
// Whether the family recognises speech by writing what was said, and not by a character for each frame.
bool recognises_by_writing(const Family& family);
// Whether a tensor of a model holds values of its head, or of a pooler.
bool is_of_head(const FamilyHead& head, std::string_view parameter);

}  // namespace transom
