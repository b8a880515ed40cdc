// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/label_tokens.h"

#include <algorithm>

namespace transom {

NamedTensors label_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts, int64_t length,
                          std::optional<Side> side) {
  EncodeOptions options{.padding = Padding::kLongest};
  if (length > 0)
    options = {.truncation = Truncation::kLongestFirst, .padding = Padding::kMaxLength, .max_length = length};
  options.padding_side = side;
  const std::vector<Encoding> encodings = tokenizer.encode_batch(texts, {}, options);
  std::vector<int64_t> ids, mask;
  for (const Encoding& encoding : encodings) {
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    mask.insert(mask.end(), encoding.attention_mask.begin(), encoding.attention_mask.end());
  }
  const Shape shape{static_cast<int64_t>(encodings.size()), static_cast<int64_t>(encodings[0].size())};
  NamedTensors inputs{{"input_ids", Tensor::from(ids, shape)}};
  const std::vector<std::string>& given = tokenizer.model_input_names();
  if (std::find(given.begin(), given.end(), "attention_mask") != given.end())
    inputs.set("attention_mask", Tensor::from(mask, shape));
  return inputs;
}

}  // namespace transom
