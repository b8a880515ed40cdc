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

using MakeLlavaReader = std::unique_ptr<PictureReader> (*)(const Config& config, const Scope& scope, int64_t width);
// A decoder, of the family `text` where its configuration names none, whose pictures the reader reads.
std::unique_ptr<Decoder> llava_decoder(const Config& config, const Scope& scope, const std::string& text, int64_t image,
                                       MakeLlavaReader make_reader);

// The reader is a `Reader`(config, scope, width of the text).
template <typename Reader>
std::unique_ptr<PictureReader> make_llava_reader(const Config& config, const Scope& scope, int64_t width) {
  return std::make_unique<Reader>(config, scope, width);
}
template <typename Reader>
std::unique_ptr<Decoder> make_llava_decoder(const Config& given, const Scope& scope) {
  return llava_decoder(with_defaults(given, kLlavaTower), scope, "llama", kLlavaImageToken, make_llava_reader<Reader>);
}

// With the classes NAMEForConditionalGeneration and NAMEModel, which read `pixels` beside a text.
Family llava_like(const std::string& type, const std::string& name, MakeDecoder make, FamilyInputs pixels,
                  int64_t image = kLlavaImageToken);

}  // namespace transom
