// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace transom {

class Model;
class Tokenizer;

// The model's ids of the end, the begin and the padding become the tokenizer's where it has them, in config.json and
// generation_config.json, as Trainer has it. Ids that end a text are added to those that the model knows.
void align_special_tokens(Model& model, const Tokenizer& tokenizer);

}  // namespace transom
