// SPDX-License-Identifier: Apache-2.0
// Vision-language models: a decoder in which the rows that a reader makes of pictures stand in the places of their
// tokens. Letters: N pictures, P places of one, B batch, T time, D hidden.
#pragma once

#include <memory>
#include <string>

#include "models/shared/decoder.h"
#include "models/vision_language/picture_positions.h"

namespace transom {

// What a reader makes of pictures: rows for their places, in order.
struct PictureRows {
  Tensor rows;        // [n, D]
  Tensor count = {};  // i64 []: the first so many are for places; empty: all
};

// A picture as an input of its own, and how many places it fills.
struct PictureApart {
  NamedTensors tensors;
  int64_t places = 0;
};

// Makes rows of pictures: a tower and a projector.
class PictureReader {
 public:
  virtual ~PictureReader() = default;
  // The arguments of forward() that say what the pictures are; the first is needed.
  virtual std::vector<std::string> input_names() const { return {"pixel_values"}; }
  virtual PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const = 0;
  // The pictures of a batch one by one, in order. By default a picture is a row of each of the inputs, and all fill as
  // many places.
  virtual std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext& context) const;
  // Whether the places of pictures have a time, a row and a column for the decoder (picture_positions.h); extents()
  // then says of each picture how they lie.
  virtual bool places_pictures() const { return false; }
  virtual std::vector<PictureExtents> extents(const NamedTensors&) const { return {}; }
};

// The whole numbers of an input that says how many rows pictures have, which no program can be compiled without.
std::vector<int64_t> known_numbers(const Tensor& tensor, const std::string& name);

// Which tokens see those behind them too, as token_type_ids says, or rows that are given in place of tokens.
enum class Together {
  kNone,
  kPictures,  // the places of a picture (types of 1) each other, within the windows of layers
  kPrompt,    // all of a text with pictures before what is written (types of 0)
};

struct VisionLanguageOptions {
  int64_t image_token;               // stands in the places of pictures
  bool tie_word_embeddings = false;  // or as the decoder's configuration says
  std::string head = "lm_head";      // name of the output layer
  Together together = Together::kNone;
  int64_t behind_blocks = 0;  // a reader's rows have so many times D numbers more: what is added behind these blocks
};

// `text` is the bare model of a decoder's family (make_part).
std::unique_ptr<Decoder> make_vision_language_decoder(std::unique_ptr<PictureReader> reader,
                                                      std::unique_ptr<Model> text,
                                                      const VisionLanguageOptions& options);

}  // namespace transom
