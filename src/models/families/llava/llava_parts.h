// SPDX-License-Identifier: Apache-2.0
// What LLaVA and its successors share: two linear layers behind a tower that sees, and most of their records.
#pragma once

#include <string>

#include "models/family.h"
#include "models/shared/decoder.h"
#include "transom/layers.h"

namespace transom {

// Of llava-1.5, which Transformers takes where a configuration says nothing of the tower.
extern const char* const kLlavaTower;
inline constexpr int64_t kLlavaImageToken = 32000;

// States of a tower as rows for a decoder: [N, P, in] -> [N, P, width].
class LlavaProjector {
 public:
  LlavaProjector(const Config& config, const Scope& scope, int64_t in, int64_t width);
  Tensor operator()(const Tensor& seen, ForwardContext& context) const;

 private:
  std::string activation_;
  Linear linear_1_, linear_2_;
};

int64_t llava_image_token(const Config& config);
// With the classes NAMEForConditionalGeneration and NAMEModel, which read `pixels` beside a text.
Family llava_like(const std::string& type, const std::string& name, MakeDecoder make, FamilyInputs pixels);

}  // namespace transom
