// SPDX-License-Identifier: Apache-2.0
// Facts that several families share, as their records state them: heads, inputs, layers.
#pragma once

#include <string>
#include <vector>

#include "files/family/family.h"

namespace transom {

// ---- heads. `modules` hold the head's parameters.

FamilyHead body_head(std::vector<std::string> pipelines, std::vector<std::string> outputs = {"last_hidden_state"},
                     std::vector<std::string> modules = {});
FamilyHead sequence_classification_head(std::vector<std::string> modules);
FamilyHead token_classification_head(std::vector<std::string> modules);
FamilyHead question_answering_head(std::vector<std::string> modules);
FamilyHead multiple_choice_head(std::vector<std::string> modules);
FamilyHead masked_lm_head(std::vector<std::string> modules, std::vector<std::string> vocabulary);
FamilyHead causal_lm_head(std::vector<std::string> modules, std::vector<std::string> vocabulary,
                          LossDivisor divisor = LossDivisor::kOwn);
FamilyHead sequence_to_sequence_head(std::vector<std::string> pipelines, std::vector<std::string> modules,
                                     std::string vocabulary);
FamilyHead image_classification_head(std::vector<std::string> modules);
FamilyHead masked_image_head(std::vector<std::string> modules);
FamilyHead semantic_segmentation_head(std::vector<std::string> modules);

// ---- inputs

// A text: ids and mask.
FamilyInputs text_inputs();
// The same with positions, which exported files have as `exported` says.
FamilyInputs placed_text_inputs(FamilyInput::Export exported = FamilyInput::Export::kNever);
// The same with types of tokens, of which a table has `types` rows where the configuration does not say.
FamilyInputs typed_text_inputs(int64_t types, FamilyInput::Export exported = FamilyInput::Export::kAlways);
// Of decoders whose types of tokens are rows of the table of tokens.
FamilyInputs decoder_inputs_with_types();
// A text, and what a decoder has written. A model that does not need the second decodes the text itself.
FamilyInputs text_to_text_inputs(bool needs_decoder_tokens = true,
                                 const std::vector<std::string>& decoder_vocabulary = {"vocab_size"});
FamilyInput decoder_tokens(const std::vector<std::string>& vocabulary = {"vocab_size"});
// A picture of the extents that the configuration has, or a part of it.
FamilyInput sized_pixels(const std::string& part = "");
FamilyInput pixels_of_any_size(const std::string& channels = "num_channels");
// Samples of a sound and their mask.
FamilyInputs sound_inputs();

// ---- weights

// The layers of LLaMA's block and its like.
std::vector<ScaledLayers> gated_decoder_layers();

}  // namespace transom
