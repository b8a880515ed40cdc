// SPDX-License-Identifier: Apache-2.0
// What a task that ranks documents says of the pairs that it judges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "work/pipelines/pipeline.h"

namespace transom {

class PairRanking : public Pipeline {
 public:
  // How many tokens the model reads of a query and a document, with what it puts around them. Nothing is cut.
  virtual int64_t tokens_of_pair(const std::string& query, const std::string& document) const = 0;
  // The most that it reads; what is longer is cut at the end of the document. Empty: nothing limits it.
  virtual std::optional<int64_t> max_length() const = 0;
};

}  // namespace transom
