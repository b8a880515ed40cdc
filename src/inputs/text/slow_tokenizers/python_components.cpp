// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/python_components.h"

#include <algorithm>

#include "inputs/text/encoding.h"

namespace transom::text {

void PythonProcessing::apply(std::vector<Encoding>& parts, bool add_special_tokens) const {
  for (Encoding& part : parts) std::fill(part.type_ids.begin(), part.type_ids.end(), 0);
  if (!add_special_tokens) return;
  if (end_) append_special(parts.back(), end_->id, end_->token, 0);
  if (parts.size() < 2) return;
  std::vector<int64_t>& types = parts.back().type_ids;
  const size_t zeros = std::min(added_tokens(false), types.size());
  std::fill(types.begin() + static_cast<std::ptrdiff_t>(zeros), types.end(), 1);
}

}  // namespace transom::text
