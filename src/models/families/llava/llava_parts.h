// SPDX-License-Identifier: Apache-2.0
// What LLaVA and its successors share: two linear layers behind a tower that sees, and most of their records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/family.h"
#include "models/shared/decoder.h"
#include "models/shared/record_parts.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "transom/layers.h"

namespace transom {

// Of llava-1.5, which Transformers takes where a configuration says nothing of the tower.
extern const char* const kLlavaTower;
inline constexpr int64_t kLlavaImageToken = 32000;

// What stands in the places of pictures, by both of its names.
int64_t llava_image_token(const Config& config, int64_t otherwise = kLlavaImageToken);
// By which other names checkpoints have the parts, of this family and of others that name them alike.
std::vector<RenamedPart> llava_renamed_parts();

// States of a tower as rows for a decoder: [N, P, in] -> [N, P, width].
class LlavaProjector {
 public:
  LlavaProjector(const Config& config, const Scope& scope, int64_t in, int64_t width);
  Tensor operator()(const Tensor& seen, ForwardContext& context) const;

 private:
  std::string activation_;
  Linear linear_1_, linear_2_;
};

// A decoder whose pictures a `Reader`(config, scope, width of the text) reads.
template <typename Reader>
std::unique_ptr<Decoder> make_llava_decoder(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kLlavaTower);
  std::unique_ptr<Model> text =
      make_part(part_config(config, "text_config", "llama"), "feature-extraction", scope / "language_model" / "model");
  auto reader = std::make_unique<Reader>(config, scope, body_of(*text).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(text),
                                      {.image_token = llava_image_token(config),
                                       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false),
                                       .head = "language_model.lm_head"});
}
// With the classes NAMEForConditionalGeneration and NAMEModel, which read `pixels` beside a text.
Family llava_like(const std::string& type, const std::string& name, MakeDecoder make, FamilyInputs pixels);

}  // namespace transom
