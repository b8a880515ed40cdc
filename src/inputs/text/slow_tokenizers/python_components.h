// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "inputs/text/components/components.h"

namespace transom::text {

// What the tokenizer classes of Transformers that are written in Python add around one text or two: one token at the
// end, or none. The type ids of a pair are 0 for as many tokens as the first text would have alone, then 1.
class PythonProcessing : public PostProcessor {
 public:
  struct End {
    int64_t id = 0;
    std::string token;
  };
  explicit PythonProcessing(std::optional<End> end) : end_(std::move(end)) {}
  size_t added_tokens(bool) const override { return end_ ? 1 : 0; }
  void apply(std::vector<Encoding>& parts, bool add_special_tokens) const override;

 private:
  std::optional<End> end_;
};

}  // namespace transom::text
