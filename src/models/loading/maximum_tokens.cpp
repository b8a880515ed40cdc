// SPDX-License-Identifier: Apache-2.0
#include "models/loading/maximum_tokens.h"

#include "files/config/config.h"
#include "models/records.h"

namespace transom {
namespace {

int64_t number_at(const Config& config, const std::string& path) {
  const size_t dot = path.find('.');
  if (dot == path.npos) return config.get_int(path, 0);
  const std::string outer = path.substr(0, dot);
  return config.has(outer) ? number_at(config.get_object(outer), path.substr(dot + 1)) : 0;
}

}  // namespace

std::optional<int64_t> maximum_tokens(const Config& config) {
  const Family* family = find_family(config);
  const PositionLimit positions = family ? *family->processors.positions : PositionLimit{{"max_position_embeddings"}};
  int64_t limit = 0;
  for (const std::string& field : positions.fields)
    if (limit == 0) limit = number_at(config, field);
  if (limit > 0 && positions.behind_padding) limit -= config.get_int("pad_token_id", 1) + 1;
  return limit > 0 ? std::optional(limit) : std::nullopt;
}

}  // namespace transom
