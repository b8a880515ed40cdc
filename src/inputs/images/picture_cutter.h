// SPDX-License-Identifier: Apache-2.0
// Processors that make several pictures of one: of vision-language models that see more than their tower's square.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inputs/images/image_processor.h"

namespace transom {

class PictureCutter {
 public:
  virtual ~PictureCutter() = default;
  // The parts, all of one size unless they are filled up; what is known of them goes into `made`: rows, columns,
  // beside.
  virtual std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const = 0;
  // The numbers of all parts in the order that the model reads them.
  virtual void lay_out(ImageProcessor::Pixels&) const {}
  // Whether parts are resized and cropped as whole pictures are.
  virtual bool has_usual_steps() const { return false; }
  // Whether the parts are put into squares of the mean colour before.
  virtual bool squares(const ImageProcessor::Pixels&) const { return false; }
  // Whether parts of other sizes are filled up to the largest of them, with a mask.
  virtual bool fills_up() const { return false; }
};

// By the name of the processor's class, "Idefics3"; null: it leaves pictures whole. Reads its own fields of the
// configuration; `resampling` is where that says nothing else.
std::shared_ptr<const PictureCutter> make_picture_cutter(const std::string& family, const Config& config,
                                                         Resampling resampling);

// The tiles of a canvas, by max_image_tiles and size, that of a tile (canvas_cutter.cpp).
std::shared_ptr<const PictureCutter> make_canvas_cutter(const Config& config, Resampling resampling);

}  // namespace transom
