// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/text_limit.h"

#include <algorithm>

#include "files/config/config.h"
#include "models/loading/maximum_tokens.h"
#include "models/records.h"

namespace transom {

std::optional<int64_t> longest_positions(const Model& model) {
  const Config& config = model.config();
  const Family* family = find_family(config);
  if (!family) return maximum_tokens(config);
  const PositionLimit& positions = *family->processors.positions;
  const bool has_table =
      positions.has_table && (positions.table_flag.empty() || config.get_bool(positions.table_flag, true));
  return has_table ? maximum_tokens(config) : std::nullopt;
}

std::optional<int64_t> longest_input(const Model& model, const Tokenizer& tokenizer) {
  const int64_t limit = longest_positions(model).value_or(0);
  const int64_t own = tokenizer.model_max_length().value_or(0);
  const int64_t length = own > 0 && limit > 0 ? std::min(own, limit) : std::max(own, limit);
  return length > 0 ? std::optional(length) : std::nullopt;
}

std::optional<int64_t> longest_sentence(const SentenceModules& modules, const Model& model,
                                        const Tokenizer& tokenizer) {
  const std::optional<int64_t> positions = longest_positions(model);
  if (modules.max_seq_length) return std::min(*modules.max_seq_length, positions.value_or(*modules.max_seq_length));
  const std::optional<int64_t> longest = longest_input(model, tokenizer);
  const int64_t most = model.config().get_int("max_position_embeddings", -1);
  return most > 0 ? std::min(most, longest.value_or(most)) : longest;
}

}  // namespace transom
