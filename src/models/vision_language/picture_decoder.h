// SPDX-License-Identifier: Apache-2.0
// Vision-language models: a decoder in which the rows that a reader makes of pictures stand in the places of their
// tokens. Letters: N pictures, P places of one, B batch, T time, D hidden.
#pragma once

#include <memory>
#include <string>

#include "models/shared/decoder.h"

namespace transom {

// Makes rows of pictures: a tower and a projector.
class PictureReader {
 public:
  virtual ~PictureReader() = default;
  virtual Tensor operator()(const Tensor& pixel_values, ForwardContext& context) const = 0;  // -> [N, P, D]
};

struct VisionLanguageOptions {
  int64_t image_token;               // stands in the places of pictures
  bool tie_word_embeddings = false;  // or as the decoder's configuration says
  std::string head = "lm_head";      // name of the output layer
};

// `text` is the bare model of a decoder's family (make_part).
std::unique_ptr<Decoder> make_vision_language_decoder(std::unique_ptr<PictureReader> reader,
                                                      std::unique_ptr<Model> text,
                                                      const VisionLanguageOptions& options);

}  // namespace transom
