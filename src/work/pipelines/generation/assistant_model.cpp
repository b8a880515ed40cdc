// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/generation/assistant_model.h"

#include "base/error.h"
#include "models/loading/weights/missing_weights.h"

namespace transom {

std::unique_ptr<Model> load_assistant(const std::string& directory, const LoadOptions& options,
                                      const Tokenizer& tokenizer) {
  const Tokenizer own = Tokenizer::from_pretrained(directory);
  if (own.vocab_size() != tokenizer.vocab_size())
    fail(
        "assistant_model: {}: expected the {} tokens of the model that verifies, found {}; take a smaller model of the "
        "same family",
        directory, tokenizer.vocab_size(), own.vocab_size());
  for (int64_t token = 0; token < own.vocab_size(); ++token)
    if (own.id_to_token(token) != tokenizer.id_to_token(token))
      fail(
          "assistant_model: {}: its token {} is not that of the model that verifies; take a smaller model of the same "
          "family",
          directory, token);
  return load_trained(directory, options);
}

}  // namespace transom
