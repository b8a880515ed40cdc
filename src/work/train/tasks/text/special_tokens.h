// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace transom {

class Model;
class Tokenizer;

// The model's ids of the end, the begin and the padding become the tokenizer's where it has them, in config.json and
// generation_config.json, as Trainer has it. Ids that end a text are added to those that the model knows. `end`: in
// place of the tokenizer's.
void align_special_tokens(Model& model, const Tokenizer& tokenizer, std::optional<int64_t> end = std::nullopt);

}  // namespace transom
